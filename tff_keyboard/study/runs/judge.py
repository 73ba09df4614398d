"""Evaluates the runs of a study on the same text, once for each set of weights.

The text is that of the control: its store's people and, for "general", the held-out clients of its
`fine_tuning.general_store`. So a general model, which was trained on another store, is judged on
the same people as what was made of it.
"""

import dataclasses
import pathlib
from collections.abc import Callable

from tff_keyboard import config as config_lib
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.counts import typed_text
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage.errors import ConfigError, DataError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.study.plan.plan import Run
from tff_keyboard.study.plan.study_file import Study


class Judge:
    """Evaluates runs on the populations of a study: whole messages, as `evaluate` does.

    Raises `ConfigError` if "general" is asked for and the control has no general store.
    """

    def __init__(self, study: Study, control: config_lib.RunConfig):
        self._texts = {name: _text(study, control, name) for name in study.populations}

    def evaluations(self, run: Run) -> dict[str, Evaluation]:
        """Population -> the run on it; from its directory where that has been done."""
        directory = RunDirectory(run.path)
        digest = run_evaluation.weights_digest(run.path)
        return self.judge(
            lambda: KerasPredictor(*load_model(run.path)),
            ModelFacts(name=run.path.name, source=str(run.path)),
            lambda label: directory.evaluation_path(label, digest),
        )

    def judge(
        self,
        open_model: Callable[[], Predictor],
        facts: ModelFacts,
        kept_at: Callable[[str], pathlib.Path],
    ) -> dict[str, Evaluation]:
        """Population -> a model on it; a `DataError` if it has another vocabulary than the text.

        `open_model` opens it, and is not called where all is kept; `kept_at` is the file that keeps
        its evaluation, by a word that names text and population.
        """
        predictor, found = None, dict[str, Evaluation]()
        for name, (store, text) in self._texts.items():
            kept = kept_at(f"{name}_whole_{store.card_hash[:8]}_{text.num_words}")
            evaluation = run_evaluation.read_kept(kept)
            if evaluation is None:
                predictor = predictor or open_model()
                if predictor.vocabulary != store.vocabulary:
                    raise DataError(
                        f"{facts.source} was trained with another vocabulary than that of "
                        f"{store.directory}. Give all arms of a study one vocabulary "
                        "(`tff-keyboard merge-vocabulary`)."
                    )
                evaluation = run_evaluation.evaluate_named(predictor, facts, text, store=store)
                run_evaluation.write_evaluation(kept, evaluation)
            found[name] = evaluation
        return found


def _text(study: Study, control: config_lib.RunConfig, name: str) -> tuple[ClientStore, TypedText]:
    store, population = control.data.store, name
    if name == "general":
        store, population = control.fine_tuning.general_store, "held_out"
        if not store:
            raise ConfigError(
                "The study has the population 'general', and its control names no "
                "`fine_tuning.general_store`. Name one, or leave the population out."
            )
    opened = ClientStore(store)
    text = typed_text.of_population(opened, population)
    text = typed_text.first_messages(text, study.most_messages)
    return opened, dataclasses.replace(text, name=name)
