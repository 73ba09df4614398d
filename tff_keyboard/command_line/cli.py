"""Launches tasks, prints errors as one line, and returns exit codes.

Exit codes:
  0    success, or nothing to do
  1    a bug in tff-keyboard; a traceback follows
  2    invalid flags or config
  3    invalid input text, client store or saved model
  4    not a run directory, disk full, permission denied, port in use, a cluster failed, or a
       training had no usable update in many rounds
  5    a check failed: parity gate, doctor, signature, a privacy ledger that lost lines, or a
       model that crashes the interpreter
  130  interrupted (Ctrl-C); 143: terminated. Run the same command again to resume a training
"""

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tff_keyboard.host import extras, output, quiet
from tff_keyboard.storage import errors, part_reference
from tff_keyboard.storage.errors import UsageError, UserError

if TYPE_CHECKING:
    from tff_keyboard.command_line.options import (
        TaskOptions,  # imports every config; the list of tasks does not need them
    )

__all__ = ["UsageError", "fail", "launch"]

OK, USAGE, BAD_INPUT = 0, errors.UsageError.exit_code, errors.DataError.exit_code
MACHINE, CHECK_FAILED = errors.ProgramError.exit_code, errors.CheckFailed.exit_code
INTERRUPTED = 130


class Task(Protocol):
    """A task module: its options, and a function that runs it."""

    __name__: str
    __doc__: str | None

    @property
    def Options(self) -> "type[TaskOptions]": ...

    def run(self, options: Any, /) -> object: ...


def fail(message: str) -> None:
    """Prints a one-line error to stderr, without control characters."""
    print(f"error: {errors.printable(message, max_characters=None)}", file=sys.stderr)


def _how_to_resume(task: Task) -> str:
    """Returns how to resume a task that stopped; "" if the task starts from the beginning."""
    return "Run the same command again to resume." if task.Options.resumes else ""


def launch(task: Task, arguments: Sequence[str]) -> int:
    """Runs a task, or prints its help.

    Args:
      task: A module with `Options` and `run(options)`.
      arguments: The arguments after the task's name.

    Returns:
      The exit code. Known errors are printed as one line; unknown errors raise.
    """
    name = task.__name__.rpartition(".")[2].replace("_", "-")
    try:
        with output.ignore_broken_pipe():
            if "--help" in arguments or "-h" in arguments:
                print(task.Options.help(name, task.__doc__ or ""))
            else:
                parsed = task.Options.parse(name, arguments)
                part_reference.before_import = quiet.import_packages_of
                warnings.formatwarning = output.warning_line
                task.run(parsed)
        return OK
    except KeyboardInterrupt:
        fail(f"interrupted. {_how_to_resume(task)}")
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
    except Exception as error:
        # Compared by name, so that a command without TensorFlow does not import it here.
        if type(error).__name__ not in ("MemoryError", "ResourceExhaustedError"):
            raise
        less = "Close other programs, or set `execution.threads` = 1 and smaller batches."
        fail(f"out of memory. {less} {_how_to_resume(task)}".rstrip())
        return MACHINE
