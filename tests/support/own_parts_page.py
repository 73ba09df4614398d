"""The Python code of docs/own_parts.md."""

import pathlib
import re

_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "own_parts.md"


def code() -> str:
    """Returns all blocks of Python on the page, as one file."""
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```", _PAGE.read_text(), re.M | re.S))
