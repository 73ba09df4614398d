"""The table of the hybrid strip: on each corpus the hybrid, its parts and the whole 5-gram.

    python -m benchmarks.hybrid_table ubuntu_irc=runs/irc nus_sms=runs/sms --workdir=runs/hybrid \
        --markdown=FILE.md

A corpus is a name for the table and a run (or `.tflite` file) on its store, with `=` between;
`--store` is for a run whose config names a store that has moved. Each is compared by `tff-keyboard
compare hybrid:RUN RUN ngram:500kB ngram --clients=held_out` in a process of its own, into
WORKDIR/NAME; one that is there already is not run again, so that a stopped table goes on and a
better model needs a new folder. The tables stand between `<!-- table: hybrid -->` and
`<!-- end: hybrid -->`.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from tff_keyboard.evaluation.comparison import Comparison
from tff_keyboard.evaluation.metric_table import METRICS
from tff_keyboard.evaluation.result import Evaluation
from tff_keyboard.evaluation.sums import metric_difference
from tff_keyboard.metrics.jackknife import Interval
from tff_keyboard.storage import names
from tff_keyboard.study.tables import Document

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = ("recall_at_1_no_eos", "recall_at_3_no_eos", "recall_at_3_oov", "kss", "perplexity")
_HYBRID, _PARTS = 0, (1, 2)  # places in the comparison


def compare(run: str, out: pathlib.Path, store: str | None) -> Comparison:
    """The comparison in `out`, made if it is not there."""
    result = out / names.COMPARISON
    if not result.is_file():
        command = [sys.executable, "-m", "tasks", "compare", f"hybrid:{run}", run, "ngram:500kB"]
        command += ["ngram", "--clients=held_out", f"--out={out}"]
        command += [f"--store={store}"] if store else []
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode:
            sys.exit(done.returncode)
    return Comparison.from_json(json.loads(result.read_text(encoding="utf-8")))


def table(name: str, comparison: Comparison) -> str:
    """One corpus in Markdown: values in percent, differences in points; perplexities plain."""
    models = comparison.evaluations
    hybrid = models[_HYBRID]
    sums = hybrid.sums
    words = int((sums["tokens"] - sums["eos_tokens"]).sum())
    unknown = sums["oov_tokens"].sum() / max(words, 1)
    lines = [
        f"**`{name}`**: {len(sums['tokens'])} held-out people, {words:,} words "
        f"({unknown:.1%} OOV).",
        "",
        "| | hybrid | network | `ngram:500kB` | 5-gram, whole | hybrid to its better part |",
        "|---|---|---|---|---|---|",
    ]
    for metric in SHOWN:
        cells = [_value(model.metrics[metric], metric) for model in models]
        lines.append(f"| {METRICS[metric].label} | {' | '.join(cells)} | {_gain(models, metric)} |")
    return "\n".join(lines)


def _gain(models: tuple[Evaluation, ...], metric: str) -> str:
    """The hybrid to the better one of network and n-gram, paired; and relative to it."""
    is_perplexity = metric == "perplexity"
    parts = [models[place] for place in _PARTS]
    choose = min if is_perplexity else max
    best = choose(parts, key=lambda part: part.metrics[metric].value)
    found = metric_difference(models[_HYBRID].sums, best.sums, metric)
    if is_perplexity:
        return f"factor {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    value = best.metrics[metric].value
    relative = f", {found.value / value:+.0%} relative" if value > 0 else ""
    ends = f"[{100 * found.low:+.2f}, {100 * found.high:+.2f}]"
    return f"{100 * found.value:+.2f} {ends}{relative}"


def _value(interval: Interval, metric: str) -> str:
    if metric == "perplexity":
        return f"{interval.value:.1f} [{interval.low:.1f}, {interval.high:.1f}]"
    return f"{100 * interval.value:.2f} [{100 * interval.low:.2f}, {100 * interval.high:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--workdir", type=pathlib.Path, required=True)
    parser.add_argument("--store", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--markdown", type=pathlib.Path, help="document to put the tables into")
    options = parser.parse_args()
    document = Document(options.markdown, "hybrid")
    stores = dict(item.split("=", 1) for item in options.store)
    tables = []
    for corpus in options.corpora:
        name, equals, run = corpus.partition("=")
        if not equals:
            parser.error(f"'{corpus}' is not NAME=RUN")
        out = (options.workdir / name).absolute()
        tables.append(table(name, compare(run, out, stores.get(name))))
    shown = "\n\n".join(tables)
    print(shown)
    document.write(shown)


if __name__ == "__main__":
    main()
