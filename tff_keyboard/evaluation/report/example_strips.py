"""The suggestions of each model for a few beginnings of messages.

The beginnings are made up, or come from a file that the user names. They never come from a corpus,
because a report is shown to others. A line is the text typed so far. After a space at its end the
next word is suggested; otherwise the last word is unfinished.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from tff_keyboard.data.text.prefix_context import context_and_prefix
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.predictors.predictor import Predictor, Suggestion
from tff_keyboard.storage.errors import DataError

BEGINNINGS = (
    "", "i am ", "see you ", "are you c", "on my w", "what time ", "thank you so ", "let me k",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Example:
    """A beginning of a message, and the suggestions of each model."""

    typed: str
    strips: Mapping[str, list[Suggestion]]  # model name -> suggestions, best first


def example_strips(
    predictors: Mapping[str, Predictor], beginnings: Sequence[str], *, k: int = 3
) -> list[Example]:
    """Returns the suggestions of every model for every beginning."""

    def strip(predictor: Predictor, typed: str) -> list[Suggestion]:
        tokenizer = PythonTokenizer(predictor.vocabulary.rules)
        return predictor.suggest(*context_and_prefix(tokenizer, typed), k)

    models = predictors.items()
    return [
        Example(typed, {name: strip(one, typed) for name, one in models}) for typed in beginnings
    ]


def read_beginnings(path: str | os.PathLike[str]) -> list[str]:
    """Reads the lines of a UTF-8 file, with spaces at their ends.

    Raises `DataError` if the file cannot be read or has no lines.
    """
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    if not lines:
        raise DataError(f"{path} is empty. Write one beginning of a message per line.")
    return lines
