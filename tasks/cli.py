"""What every task shares: launching, one-line errors, exit codes.

Exit codes:
  0    done (or nothing to do)
  1    a bug of ours: a traceback follows
  2    wrong flags or config
  3    wrong input text, client store or saved model
  4    a run directory that is not one, a full disk, no permission, a port in use, a failing worker
  5    a check failed (parity gate, doctor, a signature, a model that crashes)
  130  interrupted (Ctrl-C); 143 terminated: a training goes on when the same command is run again
"""

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tff_keyboard.host import extras, output
from tff_keyboard.storage import errors
from tff_keyboard.storage.errors import UsageError, UserError

if TYPE_CHECKING:
    from .options import TaskOptions  # imports every config, which the list of tasks can do without

__all__ = ["UsageError", "fail", "launch"]

OK, USAGE, BAD_INPUT = 0, errors.UsageError.exit_code, errors.DataError.exit_code
MACHINE, CHECK_FAILED = errors.ProgramError.exit_code, errors.CheckFailed.exit_code
INTERRUPTED = 130
RESUMED = frozenset({"train", "train-server", "study", "attack", "audit-tail"})  # by a second start


class Task(Protocol):
    """A task module: what it can be told, and what it then does and prints."""

    __name__: str
    __doc__: str | None
    Options: "type[TaskOptions]"

    def run(self, options: Any, /) -> object: ...


def fail(message: str) -> None:
    """Prints one line of error to stderr, and nothing that a terminal would obey."""
    line = "".join(c for c in " ".join(message.split()) if c.isprintable())
    print(f"error: {line}", file=sys.stderr)


def launch(task: Task, arguments: Sequence[str]) -> int:
    """Runs a task, or prints its help.

    Args:
      task: A module with `Options` and `run(options)`.
      arguments: The words after the task's name.

    Returns:
      The exit code. Known errors are printed as one line; unknown ones raise.
    """
    name = task.__name__.rpartition(".")[2].replace("_", "-")
    try:
        if "--help" in arguments or "-h" in arguments:
            print(task.Options.help(name, task.__doc__ or ""))
        else:
            parsed = task.Options.parse(name, arguments)
            warnings.formatwarning = output.warning_line
            with output.that_outlives_its_reader():
                task.run(parsed)
        return OK
    except KeyboardInterrupt:
        way_on = "Run the same command again to go on where it stopped."
        fail(f"interrupted. {way_on if name in RESUMED else ''}")
        return INTERRUPTED
    except UserError as error:
        fail(str(error))
        return error.exit_code
    except ModuleNotFoundError as error:
        fail(extras.what_to_install(name, error))
        return MACHINE
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename or ''}")
        return MACHINE
