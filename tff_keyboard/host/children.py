"""Commands of child processes: of a Python module, and with a signal when the parent ends.

`python -m` and `python -c` look for modules in the current folder first, so that a file `numpy.py`
in a folder of downloads would run in each child. `python_module` and the launcher do not look
there, as the program `tff-keyboard` does not. PYTHONPATH and installed packages count as always.

A process that is killed cannot end its children, but the kernel can (`PR_SET_PDEATHSIG`). A
launcher asks the kernel for the signal, checks that the parent still exists, and becomes the
command. The request survives `exec`.

The kernel watches the parent *thread*: start the commands from a thread that lives as long as its
process.
"""

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_LAUNCHER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(1, int(sys.argv[2]), 0, 0, 0):  # 1 is PR_SET_PDEATHSIG
    sys.exit("prctl(PR_SET_PDEATHSIG): " + os.strerror(ctypes.get_errno()))
if os.getppid() != int(sys.argv[1]):  # the parent died before the request
    sys.exit("the parent process is gone")
os.execvp(sys.argv[3], sys.argv[3:])
"""


# For Python 3.10, which has no flag -P. Until the current folder is removed from the path, only the
# built-in module `sys` is imported.
_RUN_MODULE = """
import sys
sys.path.remove("")
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def python_module(
    module: str, *arguments: str, version: tuple[int, ...] = sys.version_info[:2]
) -> list[str]:
    """Returns the command that runs a module in this Python, without modules of the current folder.

    Args:
      module: The module.
      *arguments: Its arguments.
      version: The version of Python.
    """
    flags = ["-P", "-m"] if version >= (3, 11) else ["-c", _RUN_MODULE]
    return [sys.executable, *flags, module, *arguments]


def ask_for_signal_at_end_of(parent: int, number: signal.Signals) -> None:
    """Asks the kernel to send this process the signal `number` when its parent process ends.

    Raises:
      OSError: The kernel refuses.
      ProcessLookupError: The process `parent` has ended, or is not the parent.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if os.getppid() != parent:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def with_parent_death_signal(command: Sequence[str], number: signal.Signals) -> list[str]:
    """Wraps `command` so that it gets the signal `number` when this process ends.

    Start the result from a thread that lives as long as this process. SIGKILL cannot be ignored by
    the command.
    """
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(int(number))]
    return [*launcher, *command]
