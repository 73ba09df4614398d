"""Every error that a person can put right, and the exit code that the command line gives it.

The message of a `UserError` is one line: where (file, line, key), what rule, which value, and the
way out. It never quotes text that people typed. An error that is no `UserError` is a bug of ours.
"""


def in_one_line(error: Exception) -> str:
    """What an error of Python says, cut and escaped: it may quote a stranger's file."""
    return str(error)[:200].encode("unicode_escape").decode()


class UserError(Exception):
    """Base of them all; a process that ends with one has its `exit_code`."""

    exit_code = 1


class UsageError(UserError, ValueError):
    """Flags that do not fit together."""

    exit_code = 2


class ConfigError(UserError, ValueError):
    """A config that breaks a rule."""

    exit_code = 2


class DataError(UserError, ValueError):
    """Input text, options or a client store that cannot be used."""

    exit_code = 3


class SavedModelError(UserError, ValueError):
    """A directory that is not a saved model, or a damaged one."""

    exit_code = 3


class DivergedError(SavedModelError):
    """A model whose predictions are not numbers."""


class ExportError(UserError, ValueError):
    """A run, model file, vocabulary or option that cannot be exported or loaded."""

    exit_code = 3


class ProgramError(UserError, RuntimeError):
    """A disk, a permission or a worker process is not what the program needs."""

    exit_code = 4


class SecureSumError(ProgramError, ValueError):
    """A step of a secure sum that another side got wrong, or too few devices for it.

    Attributes:
      device: Key of the device that is to blame, if one is known.
    """

    device: bytes | None = None


class RunDirectoryError(ProgramError):
    """A directory is not a run, does not fit the run, or a file of it is damaged."""


class CheckFailed(UserError, ValueError):
    """What was checked broke a promise: the size of a file, its operators, its parity."""

    exit_code = 5
