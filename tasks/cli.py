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
from types import ModuleType

from absl import flags

OK, BUG, USAGE, BAD_INPUT, MACHINE, CHECK_FAILED = 0, 1, 2, 3, 4, 5
INTERRUPTED, TERMINATED = 130, 143

# Name of the error class -> exit code. By name, so that reporting an error imports nothing.
_EXIT_CODES = {
    "ConfigError": USAGE,
    "UsageError": USAGE,
    "DataError": BAD_INPUT,
    "SavedModelError": BAD_INPUT,
    "ExportError": BAD_INPUT,
    "ProgramError": MACHINE,
    "RunDirectoryError": MACHINE,
    "CheckFailed": CHECK_FAILED,
}


class UsageError(ValueError):
    """Flags that do not fit together; the message says how to fix them."""


def fail(message: str) -> None:
    """Prints one line of error to stderr."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)


def launch(module: ModuleType, arguments: Sequence[str]) -> int:
    """Parses `arguments` with the flags of a task module and runs its `main`.

    Args:
      module: Has `FLAGS`, the absl flags of this task alone (several tasks share a process in the
        tests), and `main(argv) -> int | None`; `argv` are the words that are no flags.
      arguments: The words after the task's name.

    Returns:
      The exit code. Known errors are printed as one line; unknown ones raise.
    """
    name = module.__name__.rpartition(".")[2].replace("_", "-")
    for flag in module.FLAGS:
        module.FLAGS[flag].unparse()  # of an earlier launch in this process
    wants_help = any(word in ("--help", "-h") for word in arguments)
    arguments = [] if wants_help else arguments
    try:
        words = [_with_underscores(word, module.FLAGS) for word in arguments]
        positional = module.FLAGS([f"tff-keyboard {name}", *words])[1:]
    except flags.Error as error:
        fail(f"{error} Flags of this task: tff-keyboard {name} --help.")
        return USAGE
    try:
        if wants_help:
            print(help_text(module))
            return OK
        return module.main(positional) or OK
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


def _with_underscores(word: str, known: flags.FlagValues) -> str:
    """`--allow-loss=x` as `--allow_loss=x`, the spelling of absl, if that is a flag."""
    name, equals, value = word.partition("=")
    if not name.startswith("--"):
        return word
    spelled = name[2:].replace("-", "_")
    return f"--{spelled}{equals}{value}" if spelled.removeprefix("no") in known else word


def help_text(module: ModuleType) -> str:
    """The module's docstring and its flags."""
    defined = [module.FLAGS[name] for name in module.FLAGS]
    lines = [(module.__doc__ or "").strip(), "", "Flags:"]
    for flag in sorted(defined, key=lambda f: f.name):
        default = "" if flag.default in (None, [], "") else f" (default: {flag.default})"
        meaning = flag.help.partition(";\n")[0]  # absl adds a remark to flags that repeat
        lines.append(f"  --{flag.name}: {meaning}{default}")
    return "\n".join(lines)


def only_flags(argv: Sequence[str]) -> None:
    """Refuses words that are no flags.

    Raises:
      UsageError: There are some.
    """
    if argv:
        raise UsageError(
            f"Unexpected argument {argv[0]!r}. This task takes flags only; see --help."
        )


def one_argument(argv: Sequence[str], what: str) -> str:
    """The single word that is no flag.

    Raises:
      UsageError: There is none, or more than one.
    """
    if len(argv) != 1:
        raise UsageError(f"Give {what}, one; got {len(argv)} arguments. See --help.")
    return argv[0]
