"""What every task shares: launching, one-line errors, exit codes.

Exit codes:
  0    done (or nothing to do)
  1    a bug of ours: a traceback follows
  2    wrong flags or config
  3    wrong input text, client store or saved model
  4    a run directory that is not one, a full disk, no permission, a TFF worker that fails
  5    a check failed (parity gate, doctor)
  130  interrupted (Ctrl-C); 143 terminated: run the same command again to resume
"""

import os
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from tasks import options
from tasks.options import UsageError

__all__ = ["UsageError", "fail", "launch"]

OK, USAGE, BAD_INPUT, MACHINE, CHECK_FAILED, INTERRUPTED = 0, 2, 3, 4, 5, 130

# Name of the error class -> exit code. By name, so that reporting an error imports nothing.
_EXIT_CODES = {
    "ConfigError": USAGE,
    "UsageError": USAGE,
    "DataError": BAD_INPUT,
    "SavedModelError": BAD_INPUT,
    "ExportError": BAD_INPUT,
    "ProgramError": MACHINE,
    "RunDirectoryError": MACHINE,
    "NoiseKeyError": MACHINE,
    "CheckFailed": CHECK_FAILED,
}


class Task(Protocol):
    """A task module: what it can be told, and what it then does and prints."""

    __name__: str
    __doc__: str | None
    Options: type[options.TaskOptions]

    def run(self, options: Any, /) -> object: ...


def fail(message: str) -> None:
    """Prints one line of error to stderr."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)


def launch(task: Task, arguments: Sequence[str]) -> int:
    """Runs a task, or prints its help.

    Args:
      task: A module with `Options` and `run(options)`.
      arguments: The words after the task's name.

    Returns:
      The exit code. Known errors are printed as one line; unknown ones raise.
    """
    name = task.__name__.rpartition(".")[2].replace("_", "-")
    if hasattr(task, "FLAGS"):  # evaluate, compare, communication: not converted yet
        from tasks import absl_launch

        task = absl_launch.AbslTask(task)  # type: ignore[assignment, arg-type]
    try:
        if "--help" in arguments or "-h" in arguments:
            print(task.Options.help(name, task.__doc__ or ""))
        else:
            task.run(task.Options.parse(name, arguments))
        return OK
    except KeyboardInterrupt:
        fail("interrupted. Run the same command again to go on where it stopped.")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) went away: not an error, but nothing more may be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        exit_code = getattr(error, "exit_code", None)  # TrainingInterrupted: 130 or 143
        if isinstance(exit_code, int):
            fail(str(error))
            return exit_code
        for kind in type(error).__mro__:
            if kind.__name__ in _EXIT_CODES:
                fail(str(error))
                return _EXIT_CODES[kind.__name__]
        if isinstance(error, OSError):
            fail(f"{error.strerror or error}: {error.filename or ''}")
            return MACHINE
        raise


def one_argument(words: Sequence[str], what: str) -> str:
    """The single word that is not a flag, or a `UsageError`."""
    if len(words) != 1:
        raise UsageError(f"Give {what}, one; got {len(words)} arguments. See --help.")
    return words[0]


def only_flags(words: Sequence[str]) -> None:
    """Refuses words that are not flags, for the tasks that have absl flags yet."""
    if words:
        raise UsageError(
            f"Unexpected argument {words[0]!r}. This task takes flags only; see --help."
        )
