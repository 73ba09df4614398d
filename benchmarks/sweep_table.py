"""FedAtt against its control along the paper's sweeps, several corpora beside each other.

python -m benchmarks.sweep_table docs/papers/sweeps_{persuasion,articles,wikitext2}.json

Reads what `attention_sweeps.py --out` wrote and prints a Markdown table: a line for each point of
the sweeps that any corpus has, and for each corpus the perplexities of both, FedAtt's as a factor
of its control's with its interval over people and its range over seeds, and how many seeds. A
perplexity is marked where a curve had not flattened. The last column is what all corpora say
together. A second table has each rule at the clients' rate that is best for it.
"""

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from benchmarks import attention_best_rate, attention_table
from benchmarks.attention_progress import word_for
from benchmarks.attention_settings import CONTROL
from benchmarks.attention_sweeps import points
from tff_keyboard.evaluation.comparison import FEWEST_SEEDS

Row: TypeAlias = Mapping[str, Any]
Pair: TypeAlias = tuple[Row, Row]  # of the control, of FedAtt


def table(names: Sequence[str], corpora: Sequence[Sequence[Row]]) -> str:
    """Of the rows that `attention_table.rows_of` makes, a list for each corpus."""
    by_corpus = [_by_point(rows) for rows in corpora]
    heads = [""]
    for name in names:
        heads += [f"{name}: FedAvg(ε), FedAtt", "factor; by seed", "seeds"]
    heads.append("on all corpora")
    lines = []
    for point in points():
        pairs = [each.get(_key(point)) for each in by_corpus]
        if any(pairs):
            cells = [attention_table.label_of_point(point)]
            for pair in pairs:
                cells += _cells(*pair) if pair else ["", "", "0"]
            cells.append(on_all_corpora(pairs))
            lines.append(cells)
    return attention_table.table(heads, lines)


def on_all_corpora(pairs: Sequence[Pair | None]) -> str:
    """What the corpora say together of one point.

    Args:
      pairs: One a corpus, None where it lacks the point.

    Returns:
      "better" or "worse" where that is the verdict on every corpus, "too few seeds" where one has
      fewer than `FEWEST_SEEDS`, else "not distinguishable".
    """
    found = [pair[1] for pair in pairs if pair]
    fewest = min((len(fedatt["factor_of_seeds"]) for fedatt in found), default=0)
    if len(found) < len(pairs) or fewest < FEWEST_SEEDS:
        return "too few seeds"
    verdicts = {fedatt["verdict"] for fedatt in found}
    return verdicts.pop() if verdicts in ({"better"}, {"worse"}) else "not distinguishable"


def _by_point(rows: Sequence[Row]) -> dict[frozenset[Any], Pair]:
    """The points that have rows of both, with a seed in common."""
    found: dict[frozenset[Any], dict[str, Row]] = {}
    for row in rows:
        if row["point"] is not None:
            found.setdefault(_key(row["point"]), {})[row["setting"]["rule"]["name"]] = row
    return {
        point: (of_rules[CONTROL], of_rules["fedatt"])
        for point, of_rules in found.items()
        if CONTROL in of_rules and "factor" in of_rules.get("fedatt", {})
    }


def _key(point: Mapping[str, Any]) -> frozenset[Any]:
    return frozenset(point.items())


def _cells(control: Row, fedatt: Row) -> list[str]:
    return [
        f"{_perplexity(control)}, {_perplexity(fedatt)}",
        attention_table.factor_text(fedatt),
        str(len(fedatt["factor_of_seeds"])),
    ]


def _perplexity(row: Row) -> str:
    word = word_for(row)
    value = f"{row['held_out_perplexity']['value']:.1f}"
    return value if word == "flat" else f"{value} ({word})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=pathlib.Path, nargs="+", help="what attention_sweeps wrote")
    flags = parser.parse_args(arguments)
    names = [path.stem.removeprefix("sweeps_") for path in flags.rows]
    print(table(names, [attention_table.read_rows(path) for path in flags.rows]))
    at_best = [attention_table.read_rows(path, "at_best_rate") for path in flags.rows]
    print("\n" + attention_best_rate.markdown(dict(zip(names, at_best, strict=True))))


if __name__ == "__main__":
    main()
