"""Compares models on the same people: recall, keystrokes saved, perplexity, with verdicts.

tff-keyboard compare RUN_A RUN_B ngram unigram --clients=held_out --store=data/nus_sms
tff-keyboard compare runs/sms build/keyboard.tflite --text=phrases2.txt

A model is a run directory, a .tflite file, a .combined word list (looked up as AOSP's keyboard
does), a directory with an n-gram, or a baseline trained here on the pooled text of the store's
train clients: `ngram` (order 5), `ngram:3`, `ngram:1.25M` (pruned to so many n-grams),
`ngram:1.44MB` (a file of so many bytes), `unigram`. `ngram+all` knows every word of those clients,
`ngram+own` learns each person's own. `hybrid:RUN` is a run or a .tflite file with an n-gram file of
500 kB and a cache of each person's words; a .tflite exported with --ngram is that already, and
`network:FILE` its network alone. `hybrid+tail:RUN` completes words beyond the table, too. Every
number has a 95 % jackknife interval over people, every later model its difference to the first.
--all prints every metric; docs/evaluation.md says what is counted. Writes comparison.json and .csv.

tff-keyboard compare old.tflite new.tflite --store=DIR --fail-if-worse=top-3:0.2,kss:0.2 --prompts=F
is the gate of a release: exit code 5 unless new.tflite is shown to lose no more than so many points
and passes every golden prompt (docs/phone/export.md).
"""

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from .. import predictors
from ..options import Cluster, Population, Range, TaskOptions, Words
from tff_keyboard import config as config_lib
from tff_keyboard.evaluation.named import references
from tff_keyboard.evaluation.release_gate import release_gate
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
    """What the task can be told."""

    models: Annotated[tuple[str, ...], Words("at least one model", least=1)]
    clients: Annotated[Population, "Population to compare on."] = "held_out"
    store: Annotated[pathlib.Path | None, "Client store; by default that of the first run."] = None
    text: Annotated[
        pathlib.Path | None, "Text file to compare on instead, a message per line; plain or .gz."
    ] = None
    blocks: Annotated[int, "With --text: how many pseudo-users share its lines.", Range(2)] = 50
    most_messages: Annotated[
        int, "Messages of each person that are read, from the first one; 0 for all.", Range(0)
    ] = 0
    word_list: Annotated[
        pathlib.Path | None, "Public list for `hybrid+tail:`, lines of word<TAB>frequency."
    ] = None
    max_length: Annotated[int, "Most words of a message that count; 0 for all.", Range(0)] = 0
    out: Annotated[pathlib.Path, "Folder of the two files."] = pathlib.Path("comparison")
    fail_if_worse: Annotated[
        str | None,
        "Margins in points, as top-3:0.2,kss:0.2: exit code 5 unless every later model is shown to "
        "lose no more to the first.",
    ] = None
    prompts: Annotated[
        pathlib.Path | None,
        "Golden prompts, a line each: what is typed, a TAB, wanted and !unwanted words. Exit code "
        "5 if a model other than the first, or the only one, fails any.",
    ] = None
    all: Annotated[bool, "Print all metrics, differences, slices and calibration, too."] = False
    cluster: Cluster = ""


def run(options: Options) -> "Comparison":
    """Evaluates, writes the files and prints the table."""
    references.check_words(options.models)
    gate = release_gate(options.fail_if_worse, options.prompts, num_models=len(options.models))
    refuse_shared_noise([ledger_of(pathlib.Path(model)) for model in options.models])
    config = _first_config(options.models)
    store_path = options.store or (pathlib.Path(config.data.store) if config else None)
    if store_path is None and options.text is None:
        raise UsageError("Give --store=DIR or --text=FILE: no run directory names a store.")
    if options.cluster and options.text is not None:
        raise UsageError("--cluster: nodes have the client store, not the file of --text.")
    if options.cluster and options.most_messages:
        raise UsageError("--cluster: nodes count whole populations. Leave --most-messages out.")
    if options.word_list and not any(map(references.has_tail, options.models)):
        raise UsageError("--word-list: none of the models is a `hybrid+tail:` that would read it.")
    files.make_directory(options.out)  # before the work, not after it
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation import run_evaluation
    from tff_keyboard.evaluation.counts import typed_text
    from tff_keyboard.evaluation.named.named_predictor import common_rules
    from tff_keyboard.report import comparison_text, slice_text
    from tff_keyboard.training.on_cluster.evaluation_on_nodes import on_nodes

    needs_store = options.text is None or any(map(references.is_trained_here, options.models))
    store = ClientStore(store_path) if store_path and needs_store else None
    opened = predictors.open_predictors(options.models, store, options.word_list)
    text = typed_text.first_messages(
        _text(options, store, common_rules(opened)), options.most_messages
    )
    with on_nodes(options.cluster) as elsewhere:
        comparison = run_evaluation.compare_models(
            opened,
            text,
            max_length=options.max_length,
            store=store,
            compute=elsewhere(store, options.clients) if elsewhere and store else None,
        )
    for name, part in (
        (names.COMPARISON, json.dumps(comparison.to_json(), indent=1, allow_nan=False)),
        (names.COMPARISON_TABLE, comparison_text.to_csv(comparison)),
    ):
        files.write_atomically(options.out / name, [part.encode()], mode=files.OWNER_ONLY)
    print(comparison_text.first_rows(comparison))
    if options.all:
        print(f"\n{slice_text.comparison_with_slices(comparison)}")
    more = "" if options.all else "--all prints more. "
    print(f"\n{more}All metrics, sums, slices: {options.out / names.COMPARISON}; and in .csv")
    print(next_command("report", options.out))
    lines, failure = gate.judge(opened, comparison)
    for line in lines:
        print(line)
    if failure is not None:
        raise failure
    return comparison


def _first_config(models: Sequence[str]) -> config_lib.RunConfig | None:
    """The config of the first model that is a run directory."""
    for model in models:
        folder = references.path_of(model)
        path = folder / names.CONFIG if folder is not None else None
        if path is not None and path.is_file():
            return config_lib.load_of_run(path)
    return None


def _text(
    options: Options, store: "ClientStore | None", rules: "NormalisationRules"
) -> "TypedText":
    """What the models are compared on, cut into words by their rules."""
    from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
    from tff_keyboard.evaluation.counts import typed_text

    if options.text is not None:
        tokenize = PythonTokenizer(rules).tokenize
        return typed_text.from_text_file(options.text, tokenize, blocks=options.blocks)
    assert store is not None
    return typed_text.of_population(store, options.clients, rules=rules)
