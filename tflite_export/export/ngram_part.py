"""The n-gram of an export with `--ngram`: counted, pruned, mixed, and measured as written.

It is counted on the text of the store's train users. It lists no n-gram that only one user typed
(`ngram_pruning.py`). The differential privacy of the network's training does not cover it;
therefore a private run is exported without an n-gram.
"""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics import metric_table
from tff_keyboard.evaluation.model_specs import baselines
from tff_keyboard.evaluation.statistics.sums import metric_difference, metric_value
from tff_keyboard.host.text_table import aligned
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.predictors.ngram import ngram_spec
from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.export import private_runs
from tflite_export.export.trained_run import TrainedRun
from tflite_export.format import manifest
from tflite_export.format.manifest_content import HybridFigures, MixtureFacts, NGramFacts
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor

Texts = Mapping[str, Sequence[Sequence[str]]]  # user -> messages -> normalised words

MEASURED = {
    name: metric_table.METRICS[name].label
    for name in ("recall_at_1_no_eos", "recall_at_3_no_eos", "recall_at_3_oov", "kss")
}


@dataclasses.dataclass(frozen=True)
class NGramPart:
    """The files and facts that `--ngram` adds to an export."""

    data: bytes
    ngram: NGramFacts
    mixture: MixtureFacts

    def summary(self, network_bytes: int) -> str:
        """Returns a line with its size, and the size of the export without and with it.

        `network_bytes` is the size of model and vocabulary.
        """
        return (
            f"{len(self.data):,} bytes, {sum(self.ngram.ngrams):,} n-grams; {network_bytes:,} "
            f"bytes without it, {network_bytes + len(self.data):,} with it"
        )


def build(run: TrainedRun, store_directory: pathlib.Path, spec: ngram_spec.NGramSpec) -> NGramPart:
    """Counts the n-gram on the train users and fits the mixture weights on the validation users.

    The weights are fitted with the float model, because the effect of rounding is far below the
    differences that the weights depend on. `spec` is the result of `ngram_spec.of_file`.

    Raises:
      ExportError: If the run claims differential privacy, or the store has another vocabulary or no
        users to fit on.
      DataError: If the vocabulary of the store was chosen with differential privacy.
    """
    private_runs.refuse(run.directory, "an n-gram counted from", "Export without --ngram.")
    store = ClientStore(store_directory)
    private_runs.refuse_counts(
        run.directory,
        store.client_ids("train"),
        "an n-gram counted from",
        "Export without --ngram.",
    )
    if store.vocabulary.fingerprint != run.vocabulary.fingerprint:
        raise ExportError(
            f"{store.directory}: its vocabulary differs from the vocabulary of the run. Pass the "
            "store the run was trained on with --store."
        )
    store.require_exact_counts()
    try:
        text = baselines.read_train_text(store)
        ngram, data = baselines.train_for_hybrid(spec, text, run.vocabulary)
        hybrid = HybridPredictor(KerasPredictor(run.model, run.vocabulary), ngram, mixture.EQUAL)
        fitted_on = baselines.fit_on_validation(hybrid, store, "mixture")
    except ValueError as error:
        raise ExportError(f"--ngram: {error}") from None
    return NGramPart(
        data,
        NGramFacts(
            order=ngram.model.order,
            ngrams=ngram.model.num_ngrams,
            trained_on=f"{len(store.client_ids('train')):,} clients of 'train'",
            min_clients=baselines.MIN_CLIENTS,
            bytes=len(data),
            sha256=manifest.sha256(data),
        ),
        MixtureFacts(
            components=list(mixture.COMPONENTS),
            weights=hybrid.weights.to_json(),
            fitted_on=fitted_on,
        ),
    )


@dataclasses.dataclass(frozen=True)
class HybridReport(HybridFigures):
    """The metrics, with a table and a verdict."""

    def table(self) -> str:
        """Returns the report as text."""
        rows = [["", "network", "hybrid", "difference, points"]]
        for name, (alone, hybrid, half_width) in self.metrics.items():
            change = f"{100 * (hybrid - alone):+.2f}"
            if not math.isnan(half_width):  # as with one client
                change += f" +- {100 * half_width:.2f}"
            rows.append([MEASURED[name], f"{100 * alone:.2f}", f"{100 * hybrid:.2f}", change])
        title = (
            f"with n-gram and own words, on {self.words:,} words of {self.people} clients in the "
            "order typed, in percent"
        )
        return f"{title}\n{aligned(rows)}"

    def check(self) -> None:
        """Checks that the hybrid is at least as good as the network alone.

        Raises:
          CheckFailed: If it is worse.
        """
        for name in ("recall_at_3_no_eos", "kss"):
            alone, hybrid, _ = self.metrics[name]
            if not hybrid >= alone:
                raise CheckFailed(
                    f"The hybrid is worse than the network alone: {MEASURED[name]} "
                    f"{100 * hybrid:.2f} instead of {100 * alone:.2f} %. Pass more text with "
                    "--store or another size, or export without --ngram."
                )


def measure(hybrid: HybridKeyboardPredictor, texts: Texts, max_targets: int) -> HybridReport:
    """Evaluates the written files in the order of typing, as on a phone.

    For each word, the cache has seen only the words typed before it.
    """
    text = TypedText(
        "hybrid", tuple(texts), tuple([list(m) for m in client if m] for client in texts.values())
    )
    alone = predictor_evaluation.evaluate(hybrid.network, text, max_length=max_targets).sums
    mixed = predictor_evaluation.evaluate(hybrid, text, max_length=max_targets).sums
    metrics = {}
    for name in MEASURED:
        interval = metric_difference(mixed, alone, name)
        if math.isnan(interval.value):
            continue  # the text has no unknown word
        half_width = (interval.high - interval.low) / 2
        metrics[name] = (metric_value(alone, name), metric_value(mixed, name), half_width)
    return HybridReport(len(text.clients), text.num_words, metrics)
