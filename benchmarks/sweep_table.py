"""FedAtt against its control along the paper's sweeps, several corpora beside each other.

python -m benchmarks.sweep_table docs/papers/sweeps_{persuasion,articles,wikitext2}.json

Reads what `attention_sweeps.py --out` wrote and prints a Markdown table: a line for each point of
the sweeps that any corpus has, and for each corpus the perplexities of both, FedAtt's as a factor
of its control's with its interval over people and its range over seeds, and how many seeds.
"""

import argparse
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.attention_settings import CONTROL
from benchmarks.attention_sweeps import SWEEPS
from benchmarks.attention_table import label_of_point

_SWEPT_IN_TABLE = [key for key in SWEEPS if key != "patience"]


def table(names: Sequence[str], corpora: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Of the rows that `attention_table.rows_of` makes, a list for each corpus."""
    by_corpus = [_by_point(rows) for rows in corpora]
    points = [("usual", None)]
    points += [(key, value) for key in _SWEPT_IN_TABLE for value in SWEEPS[key]]
    heads = [""]
    for name in names:
        heads += [f"{name}: FedAvg(ε), FedAtt", "factor; by seed", "seeds"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for point in points:
        found = [each.get(point) for each in by_corpus]
        if any(found):
            cells = [label_of_point(*point)]
            for pair in found:
                cells += _cells(*pair) if pair else ["", "", "0"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _by_point(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, Any], Any]:
    """(what is swept, its value) -> (row of the control, row of FedAtt)."""
    found: dict[tuple[str, Any], dict[str, Any]] = {}
    for row in rows:
        name, point = row["setting"]["rule"]["name"], row["point"]
        if name in (CONTROL, "fedatt") and point is not None:
            found.setdefault(tuple(point), {})[name] = row
    return {
        point: (pair[CONTROL], pair["fedatt"]) for point, pair in found.items() if len(pair) == 2
    }


def _cells(control: Mapping[str, Any], fedatt: Mapping[str, Any]) -> list[str]:
    perplexities = [row["held_out_perplexity"]["value"] for row in (control, fedatt)]
    ended = control["at_its_end"] and fedatt["at_its_end"]
    ending = "" if ended else " (not at its end)"
    factor, by_seed = fedatt["factor"], fedatt["factor_of_seeds"]
    return [
        ", ".join(f"{value:.1f}" for value in perplexities) + ending,
        f"{factor['value']:.3f} [{factor['low']:.3f}, {factor['high']:.3f}]; "
        f"{min(by_seed):.3f} .. {max(by_seed):.3f} {fedatt['verdict']}",
        str(len(by_seed)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=pathlib.Path, nargs="+", help="what attention_sweeps wrote")
    flags = parser.parse_args(arguments)
    names = [path.stem.removeprefix("sweeps_") for path in flags.rows]
    print(table(names, [json.loads(path.read_text()) for path in flags.rows]))


if __name__ == "__main__":
    main()
