"""The model card of an export: facts to know before the model goes onto a phone.

Sections follow Mitchell et al. 2019, "Model Cards for Model Reporting", section 4,
https://arxiv.org/abs/1810.03993. The card is made from the manifest, the data card and the
evaluation of the run. If something was not measured, the card says so and names the command that
measures it. The card is Markdown for people; programs read the manifest.
"""

import pathlib
from collections.abc import Mapping

from tff_keyboard.data.sources.messages import PRIVATE_POPULATIONS
from tff_keyboard.evaluation.metrics.metric_table import HEADLINES
from tff_keyboard.evaluation.report import slice_text
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.host.text_table import aligned, joined
from tff_keyboard.storage import json_text, names
from tff_keyboard.storage.errors import ExportError
from tflite_export.export import private_runs
from tflite_export.format.manifest_content import Manifest, Parity

NO_LICENCE = "not stated (`export --licence`)"
_NOT_KNOWN = "unknown"

Metrics = Mapping[str, Mapping[str, float | None]]

_INTENDED_USE = """\
The model suggests the next word, and completes the word being typed, on the suggestion strip of a
keyboard. It is for users who write like the clients in the data. The user decides which suggestion
to accept.

Do not use it to write text on its own, to judge users or their messages, or to make decisions about
a user.
"""

_LIMITS = """\
- The model suggests words of its vocabulary, completes words of its lexicon (if it has one), and
  suggests the words that the user's cache has learned. It cannot suggest other words.
- The word lists are shipped unencrypted, and the model gives the probability of any text. Text that
  only one client typed may show in them, unless the section "Privacy" claims differential privacy.
- The model repeats what clients wrote, including rude and biased text. The keyboard applies a
  blocklist; the model does not.
- The figures are means over the clients above. Results are worse for users who type differently:
  see the worst tenth and the slices.
- A suggestion is not a fact, and its probability is only as well calibrated as measured above.
"""


def model_card(manifest: Manifest, run_dir: pathlib.Path) -> str:
    """Returns the card.

    Raises:
      ExportError: If the run's data card is damaged.
    """
    model, rows = manifest.model, manifest.vocabulary.size
    state = f"{model.state_sizes.c} + {model.state_sizes.h}"
    facts = [
        ("architecture", f"{model.name}, {rows:,} rows, state {state}"),
        ("weights", f"{model.quantization}, {model.bytes:,} bytes"),
        ("SHA-256 of the model", f"`{model.sha256}`"),
        ("training on the device", "possible" if model.trainable else "no"),
        *_beside(manifest),
        ("run", f"`{manifest.run.name}`"),
        ("licence", manifest.licence or NO_LICENCE),
    ]
    sections = {
        "Model": _list(facts),
        "Intended use": _INTENDED_USE,
        "Data": _data(run_dir),
        "Privacy": f"```\n{manifest.privacy}\n```",
        "Evaluation": _worth(manifest.run.metrics or {}, run_dir),
        "Effect of the export": _parity(manifest.parity),
        "Limits": _LIMITS,
    }
    body = "\n\n".join(f"## {title}\n\n{text.strip()}" for title, text in sections.items())
    return f"# Model card: {manifest.run.name}\n\n{body}\n"


def _beside(manifest: Manifest) -> list[tuple[str, str]]:
    """Describes the files next to the network."""
    parts, ngram, tail = [], manifest.ngram, manifest.tail
    if ngram is not None:
        parts.append(("n-gram", f"{sum(ngram.ngrams):,} n-grams, {ngram.bytes:,} bytes"))
    if tail is not None:
        origin = " and ".join(filter(None, (tail.counted_on, tail.word_list)))
        parts.append(("lexicon", f"{tail.words:,} words, from {origin}, {tail.bytes:,} bytes"))
    return parts


def _list(facts: list[tuple[str, str]]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts)


def _data(run_dir: pathlib.Path) -> str:
    """Returns the section on the training data: its source, and the size of each population."""
    path = run_dir / names.DATA_CARD
    if not path.is_file():
        return f"{_NOT_KNOWN}: the run has no data card."
    try:
        card = json_text.parse(path.read_bytes())
        if "inputs" not in card:  # of `tk.training.train` with client data of a program
            clients = card["populations"]["train"]["clients"]
            return _list([("source", str(card["clients"])), ("train clients", f"{clients:,}")])
        rows = [["population", "clients", "messages", "words", "OOV"]]
        is_private = private_runs.is_private(run_dir)
        for name, population in card["populations"].items():
            if is_private and name in PRIVATE_POPULATIONS:
                continue
            rows.append(
                [
                    name,
                    *(f"{population[key]:,}" for key in ("clients", "messages", "words")),
                    f"{population['oov_rate']:.1%}",
                ]
            )
        # Names and hashes of files can reveal clients, and test guesses of their text.
        sources = [
            f"`{entry['name']}`, {entry['bytes']:,} bytes, SHA-256 `{entry['sha256']}`"
            for entry in card["inputs"]
            if not is_private
        ]
        source = str(card["options"]["source"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ExportError(f"{path}: damaged. Restore it, or train again.") from None
    facts = [("source", source), *(("input", line) for line in sources)]
    return f"{_list(facts)}\n\n```\n{aligned(rows)}\n```"


def _worth(metrics: Metrics, run_dir: pathlib.Path) -> str:
    """Returns the section on quality: the metrics on held-out clients, with their slices."""
    path = run_dir / names.evaluation("held_out")
    if not path.is_file():
        return "Not measured. Run `tff-keyboard evaluate` on held-out clients and export again."
    figures = _figures(metrics)
    try:
        evaluation = Evaluation.from_json(json_text.parse(path.read_bytes()))
    except (ValueError, KeyError, TypeError, AttributeError):
        return figures
    text = evaluation.text
    return (
        f"On {len(text.people)} clients of `{text.name}`, {text.words:,} words, before the weights "
        "were rounded. In percent, with 95 % jackknife intervals over clients.\n\n"
        f"```\n{figures}\n\n{joined(slice_text.slice_tables(evaluation))}\n```"
    )


def _figures(metrics: Metrics) -> str:
    """Returns one line per headline metric, with its interval."""
    lines = []
    for metric in HEADLINES:
        measurement = metrics.get(metric.name)
        value = measurement.get("value") if isinstance(measurement, dict) else None
        if measurement is not None and isinstance(value, float):
            ends = [
                metric.format(e) for e in (measurement["low"], measurement["high"]) if e is not None
            ]
            interval = f" [{', '.join(ends)}]" if ends else ""
            lines.append(f"{metric.label}: {metric.format(value)}{interval}")
    return "\n".join(lines) or _NOT_KNOWN


def _parity(parity: Parity | None) -> str:
    """Returns the section on the comparison between the file and the trained model."""
    if parity is None:
        return (
            "Not measured on text (`--no-parity`). The word table in the file was compared with "
            "the model, and the strips were compared with the computed probabilities."
        )
    lines = [
        f"- compared on {parity.words:,} words of {parity.people} clients",
        f"- same best word as the float model in {parity.same_best:.1%} of the positions",
    ]
    for name, difference in parity.differences.items():
        lines.append(f"- {name}: {100 * difference.value:+.3f} points")
    if parity.forgiven:
        lines.append(f"- **failed and allowed by `--allow-loss`**: {parity.forgiven}")
    if parity.little_text:
        lines.append("- **little text**: too few words or clients for a reliable comparison")
    return "\n".join(lines)
