"""Rows of words as aligned columns: every table that a task prints."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """The rows as lines, the first `left` columns flush left and the others flush right.

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
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
