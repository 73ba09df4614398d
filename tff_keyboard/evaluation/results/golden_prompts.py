"""Golden prompts: beginnings of messages, with words that must or must not be suggested next.

    # typed text <TAB> words of which at least one must be suggested, !words that must not be
    see you <TAB>later tomorrow soon
    i am on my w<TAB>way !wali

After a space before the <TAB> the next word is suggested; otherwise the last word is unfinished.
Empty lines and lines that begin with # are ignored. A team writes prompts for its language, because
averages over a million words do not show a bad strip that every user sees.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.text.typed_so_far import context_and_prefix
from tff_keyboard.evaluation.metrics.metric_table import STRIP
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage.errors import CheckFailed, DataError

_MOST_BYTES = 1_000_000


@dataclasses.dataclass(frozen=True)
class Prompt:
    """One line of the file."""

    line: int  # number of the line, from 1
    typed: str  # text in the input field
    wanted: tuple[str, ...]  # at least one must be on the strip; () allows any strip
    unwanted: tuple[str, ...]  # none of them may be on the strip

    def failure(self, strip: Sequence[str]) -> str:
        """Returns the failure of a strip, or "" if it passes."""
        if set(strip) & set(self.unwanted):
            return "an unwanted word is on the strip"
        if self.wanted and not set(strip) & set(self.wanted):
            return "none of the wanted words is on the strip"
        return ""


@dataclasses.dataclass(frozen=True)
class Prompts:
    """A file of prompts."""

    path: pathlib.Path
    prompts: tuple[Prompt, ...]
    sha256: str  # SHA-256 of the file


@dataclasses.dataclass(frozen=True)
class PromptReport:
    """The result of a model for all prompts."""

    prompts: Prompts
    failures: tuple[tuple[Prompt, str], ...]

    def table(self) -> str:
        """Returns a line with the number of passed prompts, and a line for each failure."""
        count = len(self.prompts.prompts)
        lines = [f"golden prompts: {count - len(self.failures)} of {count} passed"]
        lines += [f"  {self.prompts.path}:{p.line}: {what}" for p, what in self.failures]
        return "\n".join(lines)

    def check(self, model: str) -> None:
        """Raises `CheckFailed` with the failed lines, if any prompt failed."""
        if self.failures:
            lines = ", ".join(str(prompt.line) for prompt, _ in self.failures[:10])
            more = ", .." if len(self.failures) > 10 else ""
            raise CheckFailed(
                f"{model} fails {len(self.failures)} of {len(self.prompts.prompts)} golden prompts "
                f"of {self.prompts.path} (line {lines}{more}). Train another model, or change the "
                "prompts."
            )


def read_prompts(path: pathlib.Path) -> Prompts:
    """Reads the prompts in a UTF-8 file.

    Raises `DataError` if the file cannot be read, a line is invalid, or there is no prompt.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise DataError(f"{path}: cannot be read as prompts ({reason}).") from None
    if len(data) > _MOST_BYTES:
        raise DataError(
            f"{path}: more than {_MOST_BYTES:,} bytes are too large for a list of prompts."
        )
    lines = enumerate(text.split("\n"), start=1)
    prompts = tuple(_parse(path, n, s) for n, s in lines if s.strip() and not s.startswith("#"))
    if not prompts:
        raise DataError(
            f"{path}: has no prompts. Write lines of typed text, a <TAB> and wanted words."
        )
    return Prompts(path, prompts, hashlib.sha256(data).hexdigest())


def check_prompts(predictor: Predictor, prompts: Prompts) -> PromptReport:
    """Checks the suggestions of a model for every prompt."""
    tokenizer = PythonTokenizer(predictor.vocabulary.rules)
    failures = []
    for prompt in prompts.prompts:
        context, prefix = context_and_prefix(tokenizer, prompt.typed)
        strip = [word for word, _ in predictor.suggest(context, prefix, STRIP)]
        if failure := prompt.failure(strip):
            failures.append((prompt, failure))
    return PromptReport(prompts, tuple(failures))


def _parse(path: pathlib.Path, number: int, line: str) -> Prompt:
    typed, tab, words = line.rstrip("\r").partition("\t")
    wanted = tuple(word for word in words.split() if not word.startswith("!"))
    unwanted = tuple(word[1:] for word in words.split() if word.startswith("!"))
    if not tab or not (wanted or unwanted) or "" in unwanted:
        raise DataError(
            f"{path}:{number}: a prompt must be typed text, a <TAB> and words. Unwanted words "
            "start with !."
        )
    return Prompt(number, typed, wanted, unwanted)
