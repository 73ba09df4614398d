"""The one error that bad input raises."""

from __future__ import annotations


class DataError(ValueError):
    """Input, options or a store that data preparation cannot use.

    The message is one line for the person who started the task: where (file name
    and line number), what rule, and the way out. It never quotes the text itself.
    """
