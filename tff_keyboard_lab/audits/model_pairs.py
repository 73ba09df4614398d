"""Draws texts from pairs of trained models and audits what they reveal about a client."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from tff_keyboard.config import ConfigError
from tff_keyboard.models.generation import sample_texts, text_log_probabilities
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.privacy.ledger.ledger import refuse_shared_noise
from tff_keyboard.privacy.ledger.lineage import ledger_of
from tff_keyboard_lab.audits import neighbouring_runs, tail_audit
from tff_keyboard_lab.audits.tail_audit import Settings
from tff_keyboard_lab.audits.tail_report import TailAudit


def audit_pairs(
    full: pathlib.Path,
    others: Sequence[pathlib.Path],
    settings: Settings,
    passed: Callable[[], None] = lambda: None,
) -> TailAudit:
    """Audits pairs of trained models, which are run directories or saved models.

    Args:
      full: The model trained on all clients.
      others: Models trained without one client each.
      settings: Settings of the audit.
      passed: Called after each of the `num_passes` passes over texts.

    Raises:
      RunDirectoryError: If two runs share a noise key, so that their noise cancels.
    """
    refuse_shared_noise([ledger_of(path) for path in (full, *others)])
    model, vocabulary = load_model(full)
    for path in others:  # all of them before the first text
        if load_model(path)[1].fingerprint != vocabulary.fingerprint:
            raise ConfigError(
                f"{full} and {path} have different vocabularies, so they do not generate "
                "the same texts. Train both from the same client store."
            )

    def draw(drawn_model: NextWordModel, part: int) -> np.ndarray:
        texts = sample_texts(
            drawn_model, settings.num_texts, settings.num_words, 2 * settings.seed + part
        )
        passed()
        return texts

    def score(scoring_model: NextWordModel, texts: np.ndarray) -> np.ndarray:
        log_p = text_log_probabilities(scoring_model, texts)
        passed()
        return log_p

    full_texts = draw(model, 0)
    full_log_p = score(model, full_texts)
    pairs = []
    for path in others:
        other, _ = load_model(path)
        texts = draw(other, 1)
        ratios = {
            # ln c: log-probability under the other model minus that under the model of the texts.
            "without": score(model, texts) - score(other, texts),
            "with": score(other, full_texts) - full_log_p,
        }
        pair = dataclasses.replace(
            tail_audit.both_directions(ratios, settings),
            name=path.name or str(path),
            model=str(path),
            rounds_joined=neighbouring_runs.rounds_joined(full, path),
            other_differences=neighbouring_runs.other_differences(full, path),
        )
        pairs.append(pair)
    formal = neighbouring_runs.formal_guarantee(full)
    return TailAudit(settings=settings, full=str(full), formal=formal, pairs=pairs)


def num_passes(num_others: int) -> int:
    """Returns the number of passes of `audit_pairs` over all texts: each model draws and scores."""
    return 2 + 4 * num_others
