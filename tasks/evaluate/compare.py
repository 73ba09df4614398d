"""Compares models on the same clients: recall, keystrokes saved and perplexity, with a verdict.

tff-keyboard compare RUN_A RUN_B ngram unigram --clients=held_out --store=data/nus_sms
tff-keyboard compare runs/sms build/keyboard.tflite --text=phrases2.txt

Each number has a 95 % jackknife interval over clients. Each model is compared with the first one.
--out writes comparison.json and comparison.csv, which `report` reads. --all prints every metric;
docs/evaluation.md defines them.

A model is one of:
  RUN              a run directory
  FILE.tflite      an export; a hybrid if it was exported with --ngram
  network:FILE     the network of an export, without its n-gram
  FILE.combined    a word list, looked up as in the AOSP keyboard
  FILE.ngram       an n-gram next to an export
  ngram            an n-gram of order 5, counted on the pooled text of the store's train clients
  ngram:3          the same, of order 3
  ngram:1.25M      the same, pruned to this many n-grams
  ngram:1.44MB     the same, as a file of this size
  ngram+all        the same, with every word of these clients
  ngram+own        the same, and it learns each client's own words
  unigram          word frequencies of the same text
  hybrid:RUN       a run or a .tflite file, with an n-gram file of 500 kB and a cache of each
                   client's own words
"""

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from absl import flags

from tff_keyboard import config as config_lib
from tff_keyboard.command_line import predictors
from tff_keyboard.command_line.options import Cluster, Population, Positional, TaskOptions
from tff_keyboard.evaluation.model_specs import references
from tff_keyboard.host.text_table import next_command
from tff_keyboard.privacy.ledger.ledger import refuse_shared_noise
from tff_keyboard.privacy.ledger.lineage import ledger_of
from tff_keyboard.storage import files, names
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.vocabulary import NormalisationRules
    from tff_keyboard.evaluation.counts.typed_text import TypedText
    from tff_keyboard.evaluation.results.comparison import Comparison


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `compare`."""

    models: Annotated[tuple[str, ...], Positional("at least one model", min_count=1)]
    clients: Annotated[Population, "Population to compare on."] = "held_out"
    store: Annotated[pathlib.Path | None, "Client store. Default: the store of the first run."] = (
        None
    )
    text: Annotated[
        pathlib.Path | None,
        "Text file to compare on instead of a store, one message per line; plain or .gz.",
    ] = None
    max_messages: Annotated[
        int,
        "Maximum number of messages per client, from the first one. 0: all.",
        flags.IntegerParser(0),
    ] = 0
    out: Annotated[
        pathlib.Path | None, "Folder for comparison.json and comparison.csv, for `report`."
    ] = None
    all: Annotated[bool, "Also print all metrics, differences, slices and calibration."] = False
    cluster: Cluster = ""


def run(options: Options) -> "Comparison":
    """Evaluates, prints the table, and writes the files of --out."""
    references.check_words(options.models)
    refuse_shared_noise([ledger_of(pathlib.Path(model)) for model in options.models])
    config = _config_of_first_run(options.models)
    store_path = options.store or (pathlib.Path(config.data.store) if config else None)
    if store_path is None and options.text is None:
        raise UsageError(
            "Pass --store=DIR or --text=FILE: none of the models is a run directory with a store."
        )
    if options.cluster and options.text is not None:
        raise UsageError("--cluster cannot be used with --text: nodes read only client stores.")
    if options.cluster and options.max_messages:
        raise UsageError(
            "--cluster cannot be used with --max-messages: nodes evaluate whole populations."
        )
    if options.out is not None:
        files.make_directory(options.out)  # fail here, not after hours of work
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation import run_evaluation
    from tff_keyboard.evaluation.counts import typed_text
    from tff_keyboard.evaluation.metrics import own_metrics
    from tff_keyboard.evaluation.model_specs.named_predictor import common_rules
    from tff_keyboard.evaluation.report import comparison_text, slice_text
    from tff_keyboard.training.on_cluster.evaluation_on_nodes import on_nodes

    needs_store = options.text is None or any(map(references.is_trained_here, options.models))
    store = ClientStore(store_path) if store_path and needs_store else None
    opened = predictors.open_predictors(options.models, store)
    text = typed_text.first_messages(
        _text(options, store, common_rules(opened)), options.max_messages
    )
    with on_nodes(options.cluster) as elsewhere:
        comparison = run_evaluation.compare_models(
            opened,
            text,
            store=store,
            compute=elsewhere(store, options.clients) if elsewhere and store else None,
            metrics=own_metrics.build(config.evaluation.metrics if config else {}),
        )
    if options.out is not None:
        for name, part in (
            (names.COMPARISON, json.dumps(comparison.to_json(), indent=1, allow_nan=False)),
            (names.COMPARISON_TABLE, comparison_text.to_csv(comparison)),
        ):
            files.write_atomically(options.out / name, [part.encode()], mode=files.OWNER_ONLY)
    print(comparison_text.first_rows(comparison))
    if options.all:
        print(f"\n{slice_text.comparison_with_slices(comparison)}")
    more = "" if options.all else "--all prints more. "
    if options.out is not None:
        print(f"\n{more}All metrics, sums and slices: {options.out / names.COMPARISON} and .csv")
        print(next_command("report", options.out))
    else:
        print(f"\n{more}--out=FOLDER writes all metrics, sums and slices, for `report`.")
    return comparison


def _config_of_first_run(models: Sequence[str]) -> "config_lib.RunConfig | None":
    """Returns the config of the first model that is a run directory; None without one."""
    for model in models:
        folder = references.path_of(model)
        path = folder / names.CONFIG if folder is not None else None
        if path is not None and path.is_file():
            return config_lib.load_of_run(path)
    return None


def _text(
    options: Options, store: "ClientStore | None", rules: "NormalisationRules"
) -> "TypedText":
    """Returns the text to compare on, tokenized with the rules of the models."""
    from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
    from tff_keyboard.evaluation.counts import text_blocks, typed_text

    if options.text is not None:
        tokenize = PythonTokenizer(rules).tokenize
        return text_blocks.read_text(options.text, tokenize)
    assert store is not None
    return typed_text.of_population(store, options.clients, rules=rules)
