"""Evaluates a trained run federatedly, on people it never trained on.

tff-keyboard evaluate RUN_DIR [--clients=held_out] [--store=data/other]

Prints top-1 and top-3 recall, perplexity and keystroke savings, each with a 95 % jackknife interval
over users, and writes them with one row of sums per client to RUN_DIR/evaluation_<clients>.json. A
fine-tuning run is evaluated on its general corpus as well.
"""

import hashlib
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from tasks import cli
from tff_keyboard import config as config_lib
from tff_keyboard import quiet

FLAGS = flags.FlagValues()  # of this task alone
_CLIENTS = flags.DEFINE_enum(
    "clients",
    "held_out",
    ["held_out", "validation", "train", "train_later"],
    "Population to evaluate on.",
    flag_values=FLAGS,
)
_STORE = flags.DEFINE_string(
    "store",
    None,
    "Client store with the run's vocabulary; the one it was trained on if left out.",
    flag_values=FLAGS,
)
_OUT = flags.DEFINE_string(
    "out", None, "JSON file; RUN_DIR/evaluation_<clients>.json if left out.", flag_values=FLAGS
)
_KEYSTROKES = flags.DEFINE_bool(
    "keystrokes", True, "Measure keystroke savings, too: about 8,000 words/s.", flag_values=FLAGS
)
_SET = flags.DEFINE_multi_string(
    "set",
    [],
    "Override of an `evaluation.` or `execution.` key of the run; may be repeated.",
    flag_values=FLAGS,
)

# What the table shows: metric -> what it is a share of.
HEADLINES = {
    "recall_at_1_no_eos": "top-1 recall, words typed (OOV counts as missed)",
    "recall_at_3_no_eos": "top-3 recall, words typed",
    "recall_at_1_words": "top-1 recall, in-vocabulary words",
    "recall_at_3_words": "top-3 recall, in-vocabulary words",
    "recall_at_1_all": "top-1 recall, all tokens (with end of message)",
    "recall_at_3_all": "top-3 recall, all tokens",
    "recall_at_1_words_eos": "top-1, words and end of message, which may be suggested",
    "recall_at_3_words_eos": "top-3, words and end of message",
    "accuracy_no_oov": "TFF's accuracy without OOV (nothing masked)",
    "accuracy_no_oov_or_eos": "TFF's accuracy without OOV and EOS",
    "perplexity": "perplexity, all tokens",
    "perplexity_no_oov": "perplexity without OOV",
    "kss": "keystroke savings, tap on a suggestion free",
    "kss_selection_counted": "keystroke savings, tap counted as a keystroke",
    "prediction_impression_recall": "strips shown that held the word",
}
KEYSTROKE_METRICS = ("kss", "kss_selection_counted", "prediction_impression_recall")


def run(
    run_path: pathlib.Path,
    population: str,
    *,
    store_path: str | None = None,
    out: pathlib.Path | None = None,
    keystrokes: bool = True,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Evaluates and writes the JSON file.

    Args:
      run_path: Run directory.
      population: Of the store.
      store_path: Client store; that of the run's config if left out. With one, a fine-tuning run
        is not evaluated on its general corpus.
      out: JSON file.
      keystrokes: Whether keystroke savings are measured, too.
      overrides: Of the run's config.

    Returns:
      What the file holds: `metrics` (name -> value, low, high), `clients` (a row of sums each),
      and the same again under `general` where there is a general corpus.
    """
    from tff_keyboard.storage.run_directory import RunDirectory

    run_directory = RunDirectory.open(run_path)
    # The run's limits are for quick validation between rounds; here everyone counts.
    everyone = ["evaluation.clients=0", "evaluation.max_examples=0"]
    config = config_lib.loads_of_run(
        run_directory.config_text(), [*everyone, *overrides], origin=str(run_path)
    )
    quiet.import_tensorflow_federated()
    from tff_keyboard.algorithms import build_process
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.learning import federated_evaluation
    from tff_keyboard.models.saved_model import load_model
    from tff_keyboard.program import execution
    from tff_keyboard.storage import files
    from tff_keyboard.storage.errors import DataError

    model, vocabulary = load_model(run_directory.path)
    paths = [store_path or config.data.store]
    if store_path is None and config.fine_tuning.general_store:
        paths.append(config.fine_tuning.general_store)
    stores = [ClientStore(path) for path in paths]
    for store in stores:
        if store.vocabulary != vocabulary:
            raise DataError(
                f"{store.directory} was prepared with another vocabulary than {run_path} was "
                "trained with. Prepare it with "
                f"--set=data.vocabulary_path={run_directory.vocabulary_path}."
            )
    with execution.install_context(
        max_concurrent_clients=config.execution.max_concurrent_clients or None,
        threads_per_worker=config.execution.threads_per_worker or None,
    ):
        evaluator = federated_evaluation.FederatedEvaluator(
            build_process.build_model_fn(config, len(vocabulary), evaluation=True)
        )
        results = [
            _evaluate(evaluator, model, store, population, config, keystrokes) for store in stores
        ]
    result = {"run": run_path.name, **results[0]}
    if len(results) > 1:
        result["general"] = results[1]
    out = out or run_directory.evaluation_path(population)
    files.write_atomically(out, [json.dumps(result, indent=1).encode()])
    for number, part in enumerate(results):
        if number:
            print("\nThe general corpus:")
        print(table(part))
    print(f"\nPer-client results: {out}")
    return result


def _evaluate(
    evaluator: Any, model: Any, store: Any, population: str, config: Any, keystrokes: bool
) -> dict[str, Any]:
    """Recall and perplexity through TFF, keystrokes in this process, on one store."""
    import tensorflow_federated as tff

    from tff_keyboard.evaluation import comparison
    from tff_keyboard.learning import client_inputs
    from tff_keyboard.storage.errors import DataError

    client_ids = client_inputs.evaluation_clients(store, population, config.evaluation)
    if not client_ids:
        raise DataError(f"{store.directory} has no clients in the population '{population}'.")
    datasets = client_inputs.evaluation_datasets(
        store, population, config.evaluation, max_length=config.data.max_length
    )
    weights = tff.learning.models.ModelWeights.from_model(model)
    weights = tff.learning.models.ModelWeights(
        [v.numpy() for v in weights.trainable], [v.numpy() for v in weights.non_trainable]
    )
    sums = evaluator(weights, datasets)
    metrics = summarise(sums)
    if keystrokes:
        typed = _keystroke_sums(model, store, population, client_ids, config)
        metrics |= _plain(
            {name: comparison.metric_interval(typed, name) for name in KEYSTROKE_METRICS}
        )
        sums = sums | {name: typed[name] for name in ("characters", "typed_free", "typed_counted")}
    return {
        "population": population,
        "store": store.card_hash,
        "num_clients": len(client_ids),
        "metrics": metrics,
        "clients": client_rows(client_ids, sums),
    }


def _keystroke_sums(
    model: Any, store: Any, population: str, client_ids: Sequence[str], config: Any
) -> dict[str, Any]:
    from tff_keyboard import progress
    from tff_keyboard.evaluation import predictor_evaluation, typed_text
    from tff_keyboard.metrics.keras_predictor import KerasPredictor

    text = typed_text.of_clients(store, population, client_ids)
    with progress.Progress("keystrokes", total=text.num_words, unit="words") as line:
        return predictor_evaluation.evaluate(
            KerasPredictor(model, store.vocabulary),
            text,
            max_length=config.data.max_length,
            progress=lambda done, total: line.update(text.num_words * done / total),
        )


def summarise(sums: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Every metric with its 95 % jackknife interval over users."""
    from tff_keyboard.evaluation import evaluation_sums

    return _plain(evaluation_sums.intervals(sums))


def _plain(intervals: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    return {
        name: {"value": interval.value, "low": interval.low, "high": interval.high}
        for name, interval in intervals.items()
    }


def client_rows(client_ids: Sequence[str], sums: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per client; people are named by a digest of their id."""
    return [
        {
            "client": hashlib.sha256(client_id.encode()).hexdigest()[:16],
            **{name: float(values[row]) for name, values in sums.items()},
        }
        for row, client_id in enumerate(client_ids)
    ]


def table(result: Mapping[str, Any]) -> str:
    """The headline metrics as aligned text."""
    tokens = sum(row["tokens"] - row["eos_tokens"] for row in result["clients"])
    lines = [
        f"{result['num_clients']} clients of '{result['population']}', {tokens:,.0f} words typed; "
        "95 % jackknife interval over users",
        "",
    ]
    for name, meaning in HEADLINES.items():
        if name not in result["metrics"]:
            continue
        metric = result["metrics"][name]
        if name.startswith("perplexity"):
            value = f"{metric['value']:8.1f}    [{metric['low']:.1f}, {metric['high']:.1f}]"
        else:
            percent = {key: 100 * number for key, number in metric.items()}
            value = f"{percent['value']:7.2f} %   [{percent['low']:.2f}, {percent['high']:.2f}]"
        lines.append(f"{value:32} {name:24} {meaning}")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    run(
        pathlib.Path(cli.one_argument(argv, "the run directory")),
        _CLIENTS.value,
        store_path=_STORE.value,
        out=pathlib.Path(_OUT.value) if _OUT.value else None,
        keystrokes=_KEYSTROKES.value,
        overrides=_SET.value,
    )


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
