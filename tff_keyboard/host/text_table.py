"""Output of tasks: tables with aligned columns, and the command to run next."""

import dataclasses
import shlex
from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Returns the rows as lines, with the first `left` columns left-aligned and the others right.

    A row may be shorter than the longest one.

    >>> print(aligned([["", "words"], ["ann", "12"], ["christine", "1,034"]]))
               words
    ann           12
    christine  1,034
    """
    columns = max((len(row) for row in rows), default=0)
    widths = [max(len(row[c]) for row in rows if c < len(row)) for c in range(columns)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class TextTable:
    """A table between two pieces of text. `str` formats it with `aligned`."""

    rows: Sequence[Sequence[str]]
    left: int = 1
    above: str = ""
    below: str = ""

    def __str__(self) -> str:
        parts = (self.above, aligned(self.rows, left=self.left), self.below)
        return "\n".join(part for part in parts if part)


def joined(parts: Sequence[str | TextTable]) -> str:
    """Joins the paragraphs of a task's output. Leaves out empty ones."""
    return "\n\n".join(text for text in map(str, parts) if text)


def next_command(task: str, path: object) -> str:
    """Returns the line that says what to run next, ready to paste into a shell.

    >>> next_command("advise", "my store"), next_command("report", "-x")
    ("Next: tff-keyboard advise 'my store'", 'Next: tff-keyboard report ./-x')
    """
    word = str(path)
    return f"Next: tff-keyboard {task} {shlex.quote(f'./{word}' if word.startswith('-') else word)}"
