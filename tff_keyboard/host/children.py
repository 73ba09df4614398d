"""Commands that get a signal when the process that started them ends for any reason.

A process that is killed cannot end its children, but the kernel can (`PR_SET_PDEATHSIG`). A
launcher asks the kernel for the signal, checks that the parent still exists, and becomes the
command. The request survives `exec`.

The kernel watches the parent *thread*: start the commands from a thread that lives as long as its
process.
"""

import os
import signal
import sys
from collections.abc import Sequence

_LAUNCHER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(1, int(sys.argv[2]), 0, 0, 0):  # 1 is PR_SET_PDEATHSIG
    sys.exit("prctl(PR_SET_PDEATHSIG): " + os.strerror(ctypes.get_errno()))
if os.getppid() != int(sys.argv[1]):  # the parent died before the request
    sys.exit("the parent process is gone")
os.execvp(sys.argv[3], sys.argv[3:])
"""


def with_parent_death_signal(command: Sequence[str], number: signal.Signals) -> list[str]:
    """Wraps `command` so that it gets the signal `number` when this process ends.

    Start the result from a thread that lives as long as this process. SIGKILL cannot be ignored by
    the command.
    """
    launcher = [sys.executable, "-S", "-E", "-c", _LAUNCHER, str(os.getpid()), str(int(number))]
    return [*launcher, *command]
