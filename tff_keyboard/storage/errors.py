"""All errors that a user can correct, each with the exit code of the command line.

The message of a `UserError` is one line: the place (file, line, key), the rule, the value and the
way out. It never quotes text that users typed. Any error that is not a `UserError` is a bug in this
package.
"""


def printable(text: str, *, max_characters: int | None = 200) -> str:
    """Returns text of an outside party, such as a server, as one line that is safe to print.

    A terminal obeys control characters: escape sequences change its title, its colours or lines
    that were printed before, and characters for bidirectional text swap the order of letters. This
    function removes all of them. White space of any kind becomes one space.

    Args:
      text: Any text.
      max_characters: Longest result, in characters; None for any length.

    >>> printable("\\x1b[31mred\\n\\nerror: \\u202egpj.exe")
    '[31mred error: gpj.exe'
    """
    visible = "".join(letter for letter in text if letter.isprintable() or letter.isspace())
    return " ".join(visible.split())[:max_characters]


def in_one_line(error: Exception) -> str:
    """Returns the message of a Python error, cut to 200 characters and escaped.

    The message may quote a file from an untrusted source.
    """
    return str(error)[:200].encode("unicode_escape").decode()


class UserError(Exception):
    """Base class of all errors that a user can correct. `exit_code` is returned to the shell."""

    exit_code = 1


class UsageError(UserError, ValueError):
    """Command-line flags that do not fit together."""

    exit_code = 2


class ConfigError(UserError, ValueError):
    """A config that breaks a rule."""

    exit_code = 2


class DataError(UserError, ValueError):
    """Unusable input text, data options or client store."""

    exit_code = 3


class SavedModelError(UserError, ValueError):
    """A directory that is not a saved model, or a damaged saved model."""

    exit_code = 3


class DivergedError(SavedModelError):
    """A model whose predictions are not finite numbers."""


class ExportError(UserError, ValueError):
    """A run, model file, vocabulary or option that cannot be exported or loaded."""

    exit_code = 3


class ProgramError(UserError, RuntimeError):
    """A failure of the environment: a full disk, a missing permission or a lost worker process."""

    exit_code = 4


class ClusterError(ProgramError):
    """A cluster that cannot be used, or has lost too many nodes."""


class RunDirectoryError(ProgramError):
    """A directory that is not a run, does not match the run, or has a damaged file."""


class CheckFailed(UserError, ValueError):
    """A failed check of an exported file: its size, its operators or its parity with the model."""

    exit_code = 5
