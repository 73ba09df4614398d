"""Compares models on the same people: recall, keystrokes saved, perplexity, with verdicts.

tff-keyboard compare RUN_A RUN_B ngram unigram --clients=held_out --store=data/nus_sms
tff-keyboard compare runs/sms build/keyboard.tflite --text=phrases2.txt

A model is a run directory, a .tflite file, a directory with an n-gram, or a baseline trained here
on the pooled text of the store's train clients: `ngram` (order 5), `ngram:3`, `ngram:1.25M` (pruned
to so many n-grams), `ngram:1.44MB` (a file of so many bytes), `unigram`. Every
number has a 95 % jackknife interval over people, and every later model its paired difference to
the first one: better, worse, or not distinguishable. docs/evaluation.md says what is counted.
Writes comparison.json and comparison.csv to --out.
"""

import json
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from tasks import cli, predictors
from tff_keyboard import config as config_lib
from tff_keyboard import progress, quiet
from tff_keyboard.privacy.ledger import refuse_shared_noise
from tff_keyboard.storage import files, names

if TYPE_CHECKING:
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation import comparison
    from tff_keyboard.evaluation.typed_text import TypedText
    from tff_keyboard.metrics.predictor import Predictor

FLAGS = flags.FlagValues()  # of this task alone
_CLIENTS = flags.DEFINE_enum(
    "clients",
    "held_out",
    ["held_out", "validation", "train", "train_later"],
    "Population to compare on.",
    flag_values=FLAGS,
)
_STORE = flags.DEFINE_string(
    "store",
    None,
    "Client store; that of the first run directory if left out.",
    flag_values=FLAGS,
)
_TEXT = flags.DEFINE_string(
    "text",
    None,
    "Compare on this text file instead, a message a line; plain or .gz.",
    flag_values=FLAGS,
)
_BLOCKS = flags.DEFINE_integer(
    "blocks",
    50,
    "With --text: pseudo-users its lines are cut into, in runs of equal length.",
    flag_values=FLAGS,
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length",
    None,
    "Targets of a message at most, 0 for whole messages; `data.max_length` of the first run "
    "directory if left out.",
    flag_values=FLAGS,
)
_OUT = flags.DEFINE_string(
    "out",
    "comparison",
    "Folder for comparison.json and comparison.csv.",
    flag_values=FLAGS,
)

_TIMED_SUGGESTIONS = 400


def run(
    models: Sequence[str],
    *,
    population: str = "held_out",
    store_path: str | None = None,
    text_path: str | None = None,
    blocks: int = 50,
    max_length: int | None = None,
    out: pathlib.Path,
) -> dict[str, Any]:
    """Evaluates, prints the table and writes the files.

    Args:
      models: What `predictors.open_predictors` opens; differences are to the first.
      population: Of the store.
      store_path: Where the text is, and what baselines are trained on.
      text_path: A file to evaluate on instead of a population.
      blocks: Pseudo-users of that file.
      max_length: As the flag.
      out: Folder of the files.

    Returns:
      What comparison.json holds.
    """
    if not models:
        raise cli.UsageError("Give at least one model. See --help.")
    refuse_shared_noise([pathlib.Path(model) / names.LEDGER for model in models])
    config = _first_config(models)
    if max_length is None:
        max_length = config.data.max_length if config else 0
    store_path = store_path or (config.data.store if config else None)
    if store_path is None and text_path is None:
        raise cli.UsageError("Give --store=DIR or --text=FILE: no run directory names a store.")
    files.make_directory(out)  # before the work, not after it

    quiet.import_tensorflow()
    import numpy as np

    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation import comparison
    from tff_keyboard.report import comparison_text

    needs_store = text_path is None or any(map(predictors.is_baseline, models))
    store = ClientStore(store_path) if store_path and needs_store else None
    opened = predictors.open_predictors(models, store)
    rules = opened[0].predictor.vocabulary.rules
    for other in opened[1:]:
        if other.predictor.vocabulary.rules != rules:
            raise cli.UsageError(
                f"'{other.name}' cuts text into words by other rules than '{opened[0].name}': they "
                "cannot be compared on the same words."
            )
    text = (
        _text_of_file(text_path, rules, blocks)
        if text_path
        else _text_of_population(store, population, rules)
    )
    results = [_evaluate(named, text, max_length) for named in opened]
    result = comparison.compare(
        results,
        text.people,
        {
            "name": text.name,
            "people": len(text.people),
            "words": int(np.sum(results[0].sums["tokens"] - results[0].sums["eos_tokens"])),
            "pseudo_users": text.pseudo_users,
            "max_length": max_length,
            "store": store.card_hash if store else None,
            "store_path": str(store_path) if store else None,
        },
    )
    for name, content in (
        ("comparison.json", json.dumps(result, indent=1)),
        ("comparison.csv", comparison_text.to_csv(result)),
    ):
        files.write_atomically(out / name, [content.encode()])
    print(comparison_text.table(result))
    print(f"\nPer-person sums and all metrics: {out / 'comparison.json'}, {out / 'comparison.csv'}")
    print(f"Next: tff-keyboard report {out}")
    return result


def _evaluate(
    named: predictors.NamedPredictor, text: "TypedText", max_length: int
) -> "comparison.ModelResult":
    from tff_keyboard.evaluation import comparison, predictor_evaluation

    start = time.perf_counter()
    with progress.Progress(f"evaluate {named.name}", total=text.num_words, unit="words") as line:

        def show(done: int, total: int) -> None:  # targets, of which words are the most
            line.update(text.num_words * done / total)

        sums = predictor_evaluation.evaluate(
            named.predictor, text, max_length=max_length, progress=show
        )
    return comparison.ModelResult(
        name=named.name,
        kind=named.kind,
        vocabulary_rows=len(named.predictor.vocabulary),
        vocabulary_fingerprint=named.predictor.vocabulary.fingerprint,
        sums=sums,
        seconds=time.perf_counter() - start,
        suggestion_milliseconds=suggestion_milliseconds(named.predictor, text),
        details={**named.details, "source": named.source},
    )


def suggestion_milliseconds(predictor: "Predictor", text: "TypedText") -> dict[str, float]:
    """Median and 95th percentile of one `suggest`, as a keyboard calls it: word by word, the strip
    of next words and the one after the first character."""
    import numpy as np

    seconds: list[float] = []
    messages = [message for person in text.messages for message in person]
    step = max(1, 4 * len(messages) // _TIMED_SUGGESTIONS)
    for message in messages[::step]:
        for place, word in enumerate(message[:5]):
            for prefix in ("", word[0]):
                start = time.perf_counter()
                predictor.suggest(message[:place], prefix)
                seconds.append(time.perf_counter() - start)
    p50, p95 = np.percentile(seconds[: _TIMED_SUGGESTIONS * 2], [50, 95])
    return {"p50": 1e3 * float(p50), "p95": 1e3 * float(p95)}


def _first_config(models: Sequence[str]) -> config_lib.RunConfig | None:
    """The config of the first model that is a run directory."""
    for model in models:
        path = pathlib.Path(model) / names.CONFIG
        if not predictors.is_baseline(model) and path.is_file():
            return config_lib.loads_of_run(path.read_text(encoding="utf-8"), origin=str(path))
    return None


def _text_of_file(path: str, rules: Any, blocks: int) -> "TypedText":
    from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
    from tff_keyboard.evaluation import typed_text

    if blocks < 2:
        raise cli.UsageError(f"`--blocks` must be >= 2, got {blocks}: an interval needs two.")
    return typed_text.from_text_file(path, PythonTokenizer(rules).tokenize, blocks=blocks)


def _text_of_population(store: "ClientStore | None", population: str, rules: Any) -> "TypedText":
    from tff_keyboard.evaluation import typed_text
    from tff_keyboard.storage.errors import DataError

    assert store is not None
    people = store.client_ids(population)
    if not people:
        raise DataError(f"{store.directory} has no clients in the population '{population}'.")
    if store.vocabulary.rules != rules:
        raise DataError(
            f"{store.directory} was cut into words by other rules than the first model's. Prepare "
            "it with that model's `data.mode` and `data.lowercase`."
        )
    return typed_text.of_clients(store, population, people)


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    run(
        argv,
        population=_CLIENTS.value,
        store_path=_STORE.value,
        text_path=_TEXT.value,
        blocks=_BLOCKS.value,
        max_length=_MAX_LENGTH.value,
        out=pathlib.Path(_OUT.value),
    )


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
