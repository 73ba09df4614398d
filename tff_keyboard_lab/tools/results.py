"""Writes the tables of docs/results.md, between its markers, from docs/results/recipes.toml.

python -m tff_keyboard_lab.tools.results
"""

import pathlib
import textwrap
from collections.abc import Iterator, Sequence

from tff_keyboard.training.advice import reference
from tff_keyboard_lab.study.results.tables import replace_section

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "results.md"
NAME = "reference"  # in the markers
_HEAD = "model | command | tokens | top-1 | top-3 | keystrokes saved | perplexity"


def with_tables(page: str) -> str:
    """Returns the page with the tables of `docs/results/recipes.toml`."""
    return replace_section(page, NAME, "\n\n".join(map(_section, reference.corpora())))


def _section(corpus: reference.Corpus) -> str:
    dates = " and ".join(sorted({model.date for model in corpus.models}))
    intro = textwrap.wrap(f"{corpus.judged.strip()} ({dates}).", width=100, break_on_hyphens=False)
    link = f"[Page of this model]({corpus.page})"
    table = [f"| {_HEAD} |", f"|{'---|' * (1 + _HEAD.count('|'))}", *_rows(corpus.models)]
    return "\n".join([f"## {corpus.name}", "", *intro, link, "", *table])


def _rows(models: Sequence[reference.Model]) -> Iterator[str]:
    """Yields the rows of a table of models in Markdown."""
    before = ""
    for model in models:
        value, low, high = model.top_1
        cells = [
            model.model,
            "the same" if model.command == before else f"`{model.command}`",
            f"{model.tokens_m:.1f}" if model.tokens_m else "",
            f"{value:.2f} [{low:.2f}, {high:.2f}]",
            f"{model.top_3:.2f}",
            f"{model.keystrokes:.2f}" if model.keystrokes else "",
            f"{model.perplexity:.1f}",
        ]
        yield "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"
        before = model.command


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
