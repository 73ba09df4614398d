"""The validation curves of `attention_sweeps.py`: a panel a corpus, a line a rule, a band of seeds.

python -m benchmarks.attention_picture "WikiText-2, IID=runs/sweeps_wikitext2"
    "PersuasionForGood, by person=runs/sweeps_persuasion" --out=docs/papers/sweeps.png
"""

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import attention_files, attention_table
from tff_keyboard.report import charts

SHOWN = ("fedavg_epsilon", "fedatt", "fedmed")


def curves_of(trainings: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Label -> [seeds, rounds] of the rules at their defaults, as far as all seeds went."""
    found: dict[str, list[list[float]]] = {}
    for each in sorted(trainings, key=lambda one: SHOWN.index(one["setting"]["rule"]["name"])):
        found.setdefault(attention_table.label(each["setting"]), []).append(each["curve"])
    return {
        label: np.array([curve[: min(map(len, curves))] for curve in curves])
        for label, curves in found.items()
    }


def draw(corpora: Mapping[str, Sequence[Mapping[str, Any]]], out: pathlib.Path) -> None:
    """Writes a PNG; geometric means over seeds, bands from the least to the most."""
    with charts.style("sweeps"):
        figure = Figure(figsize=(1.0 + 4.8 * len(corpora), 3.9), layout="constrained")
        panels = figure.subplots(1, len(corpora), squeeze=False)[0]
        for axes, (name, trainings) in zip(panels, corpora.items(), strict=True):
            for place, (label, curves) in enumerate(curves_of(trainings).items()):
                rounds = np.arange(1, curves.shape[1] + 1)
                colour, dashes = charts.colour(place), ("-", "--", ":")[place]
                mean = np.exp(np.log(curves).mean(axis=0))
                axes.plot(rounds, mean, dashes, color=colour, linewidth=1.8, label=label)
                axes.fill_between(
                    rounds, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.15
                )
            axes.set_title(name)
            axes.set_xlabel("rounds")
            charts.logarithmic(axes)
            axes.legend()
        panels[0].set_ylabel("perplexity on validation clients")
        charts.save_png(figure, out)


def of_folder(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The trainings of the rules shown, at their defaults."""
    return [each for name in SHOWN for each in attention_files.read_trainings(folder, name)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Draws the folders named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="+", help="TITLE=FOLDER of attention_sweeps")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="PNG")
    flags = parser.parse_args(arguments)
    named = dict(word.split("=", 1) for word in flags.corpora)
    try:
        found = {title: of_folder(pathlib.Path(path)) for title, path in named.items()}
    except ValueError as error:
        parser.error(str(error))
    draw(found, flags.out)


if __name__ == "__main__":
    main()
