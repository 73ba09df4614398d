"""Ends whatever a test run leaves behind, however it ends: Ctrl-C, a signal, a kill.

Tests start trainings, browsers and clusters, each of which may start more in sessions of their own;
a process that is killed ends none of them. So a run marks its environment, which all of them
inherit, and a process beside it waits for its end and then kills everything that has the mark.
"""

import os
import secrets
import subprocess
import sys

_VARIABLE = "TFF_KEYBOARD_TEST_RUN"

_PROGRAM = """
import ctypes, os, signal, sys, time

def is_marked(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return sys.argv[2].encode() in environment.read().split(b"\\0")
    except OSError:  # it is gone, or another user's
        return False

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
ctypes.CDLL(None).prctl(1, int(signal.SIGUSR1))  # PR_SET_PDEATHSIG
print("ready", flush=True)
if os.getppid() == int(sys.argv[1]):
    signal.sigwait([signal.SIGUSR1])
for _ in range(200):
    found = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_marked(pid)]
    if not found:
        break
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.05)
"""


def start():
    """Marks what this process starts from here on, to be ended when this process is gone."""
    mark = f"{_VARIABLE}={secrets.token_hex(16)}"
    environment = {name: value for name, value in os.environ.items() if name != _VARIABLE}
    reaper = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", _PROGRAM, str(os.getpid()), mark],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    reaper.stdout.readline()  # from now on it waits
    reaper.stdout.close()
    os.environ[_VARIABLE] = mark.partition("=")[2]
    return reaper
