"""The model card of an export: what a person should know before it goes onto a phone.

Sections after Mitchell et al. 2019, "Model Cards for Model Reporting", section 4,
https://arxiv.org/abs/1810.03993. Made of the manifest, the data card and the evaluation of the run;
what was never measured says so, with the command that measures it. Markdown, for people; programs
read the manifest.
"""

import json
import pathlib
from collections.abc import Mapping

from tff_keyboard.evaluation.metrics.metric_table import HEADLINES
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.host.text_table import aligned, joined
from tff_keyboard.report import slice_text
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import ExportError
from tflite_export.export import private_runs
from tflite_export.format.manifest_content import Manifest, Parity

NO_LICENCE = "not stated (`export --licence`)"
_NOT_KNOWN = "not known"

Metrics = Mapping[str, Mapping[str, float | None]]

_INTENDED_USE = """\
Suggestions of the next word, and of the word being typed, on the strip of a keyboard, for people
who type as those of the data do. Whoever types chooses among them.

Not for: writing text on its own, judging people or what they write, or any decision about a person.
"""

_LIMITS = """\
- Words of the table alone are suggested, words beyond it (if any) as they are typed, and those an
  owner's cache learns. They are shipped in the clear, and the model can be asked for the
  probability of any text: what one person alone typed may show, unless differential privacy was
  claimed above.
- It repeats what people wrote, rude and biased text included. A blocklist is the keyboard's, not
  the model's.
- Figures are means over the people named. Those who type otherwise are served less well: see the
  worst tenth and the slices.
- A suggestion is no fact, and its probability is calibrated no better than measured.
"""


def model_card(manifest: Manifest, run_dir: pathlib.Path) -> str:
    """The card. Raises `ExportError` if the run's data card is damaged."""
    model, rows = manifest.model, manifest.vocabulary.size
    state = f"{model.state_sizes.c} + {model.state_sizes.h}"
    facts = [
        ("architecture", f"{model.name}, {rows:,} rows, state {state}"),
        ("weights", f"{model.quantization}, {model.bytes:,} bytes"),
        ("SHA-256 of the model", f"`{model.sha256}`"),
        ("trained further on the device", "possible" if model.trainable else "no"),
        *_beside(manifest),
        ("run", f"`{manifest.run.name}`"),
        ("licence", manifest.licence or NO_LICENCE),
    ]
    sections = {
        "Model": _list(facts),
        "Intended use": _INTENDED_USE,
        "Data": _data(run_dir),
        "Privacy": f"```\n{manifest.privacy}\n```",
        "What it is worth": _worth(manifest.run.metrics or {}, run_dir),
        "What the export changed": _parity(manifest.parity),
        "Limits": _LIMITS,
    }
    body = "\n\n".join(f"## {title}\n\n{text.strip()}" for title, text in sections.items())
    return f"# Model card: {manifest.run.name}\n\n{body}\n"


def _beside(manifest: Manifest) -> list[tuple[str, str]]:
    """The parts beside the network."""
    found, ngram, tail = [], manifest.ngram, manifest.tail
    if ngram is not None:
        found.append(("n-gram", f"{sum(ngram.ngrams):,} n-grams, {ngram.bytes:,} bytes"))
    if tail is not None:
        origin = " and ".join(filter(None, (tail.counted_on, tail.word_list)))
        found.append(
            ("words beyond the table", f"{tail.words:,}, of {origin}, {tail.bytes:,} bytes")
        )
    return found


def _list(facts: list[tuple[str, str]]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts)


def _data(run_dir: pathlib.Path) -> str:
    path = run_dir / names.DATA_CARD
    if not path.is_file():
        return f"{_NOT_KNOWN}: the run has no data card."
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        rows = [["population", "people", "messages", "words", "OOV"]]
        # Exact counts of a private run's own people are not for publication.
        withheld = private_runs.OWN_POPULATIONS if private_runs.is_private(run_dir) else ()
        for name, found in card["populations"].items():
            if name in withheld:
                continue
            rows.append(
                [
                    name,
                    *(f"{found[key]:,}" for key in ("clients", "messages", "words")),
                    f"{found['oov_rate']:.1%}",
                ]
            )
        sources = [
            f"`{entry['name']}`, {entry['bytes']:,} bytes, SHA-256 `{entry['sha256']}`"
            for entry in card["inputs"]
        ]
        source = str(card["options"]["source"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ExportError(f"{path}: damaged. Restore it, or train again.") from None
    facts = [("source", source), *(("input", line) for line in sources)]
    # The people of `train` made the model; all others measure it.
    return f"{_list(facts)}\n\n```\n{aligned(rows)}\n```"


def _worth(metrics: Metrics, run_dir: pathlib.Path) -> str:
    path = run_dir / names.evaluation("held_out")
    if not path.is_file():
        return "Not measured: run `tff-keyboard evaluate` on held-out people and export again."
    figures = _figures(metrics)
    try:
        evaluation = Evaluation.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError):
        return figures
    text = evaluation.text
    return (
        f"On {len(text.people)} people of `{text.name}`, {text.words:,} words, before the weights "
        "were rounded; percent, 95 % jackknife intervals over people.\n\n"
        f"```\n{figures}\n\n{joined(slice_text.slice_tables(evaluation))}\n```"
    )


def _figures(metrics: Metrics) -> str:
    lines = []
    for metric in HEADLINES:
        found = metrics.get(metric.name)
        value = found.get("value") if isinstance(found, dict) else None
        if found is not None and isinstance(value, float):
            ends = [metric.format(e) for e in (found["low"], found["high"]) if e is not None]
            interval = f" [{', '.join(ends)}]" if ends else ""
            lines.append(f"{metric.label}: {metric.format(value)}{interval}")
    return "\n".join(lines) or _NOT_KNOWN


def _parity(parity: Parity | None) -> str:
    if parity is None:
        return (
            "Not measured on text (`--no-parity`). The table was read back from the bytes, and "
            "what is shown was held against what is computed."
        )
    lines = [
        f"- {parity.words:,} words of {parity.people} people",
        f"- same best word as the float model: {parity.same_best:.1%} of the positions",
    ]
    for name, found in parity.differences.items():
        lines.append(f"- {name}: {100 * found.value:+.3f} points")
    if parity.forgiven:
        lines.append(f"- **failed and allowed by `--allow-loss`**: {parity.forgiven}")
    if parity.little_text:
        lines.append("- **little text**: the gate did not have what it takes to decide")
    return "\n".join(lines)
