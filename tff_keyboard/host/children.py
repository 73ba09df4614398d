"""Commands that get a signal when the process that started them is gone, however it went.

A process that is killed cannot end its children. The kernel can (`PR_SET_PDEATHSIG`): a launcher
asks it for the signal, checks that the parent is still there, and becomes the command. The request
survives `exec`.

The kernel means the parent *thread*: start them from one that lives as long as its process.
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


def signalled_when_orphaned(command: Sequence[str], number: signal.Signals) -> list[str]:
    """The command to start instead, from this process and a thread that lives as long.

    `number` is the signal it gets when this process is gone; SIGKILL leaves it no choice.
    """
    launcher = [sys.executable, "-S", "-E", "-c", _LAUNCHER, str(os.getpid()), str(int(number))]
    return [*launcher, *command]
