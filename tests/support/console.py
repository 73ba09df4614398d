"""Command lines of the console in forks of one fresh Python, which knows no imports of tests.

A Python for each would spend most of its time on importing NumPy.
"""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]

# Reads names of packages to do without and [arguments, ...]; writes [[code, stdout, stderr,
# modules], ...]. What every task imports anyway is imported once; a fork begins with that alone.
SERVER = """
import json, os, sys, tempfile, traceback
without, lines = json.load(sys.stdin)
for name in without:
    sys.modules[name] = None  # an import of it raises ModuleNotFoundError
import numpy
from tasks import __main__ as console
import tff_keyboard.config

def answer(arguments):
    sys.argv = ["tasks", *arguments]
    try:
        console.main()
    except SystemExit as ended:
        return ended.code or 0
    except BaseException:
        traceback.print_exc()
    return 1

found = []
for arguments in lines:
    files = [tempfile.TemporaryFile() for _ in range(3)]
    pid = os.fork()
    if pid == 0:
        os.dup2(files[0].fileno(), 1)
        os.dup2(files[1].fileno(), 2)
        code = answer(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(files[2].fileno(), " ".join(sys.modules).encode())
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for file in files:
        file.seek(0)
    found.append([code, *(file.read().decode() for file in files)])
print(json.dumps(found))
"""


class Answer(NamedTuple):
    """What a command line left behind: exit code, output, and the names of all that it imported."""

    code: int
    stdout: str
    stderr: str
    modules: frozenset[str]


def answers(command_lines: Iterable[Sequence[object]], without: Sequence[str] = ()) -> list[Answer]:
    """`tff-keyboard ARGUMENTS` for each of `command_lines`, in their order.

    Args:
      command_lines: Arguments of each.
      without: Packages that are not there.
    """
    done = subprocess.run(
        [sys.executable, "-c", SERVER],
        input=json.dumps([list(without), [list(map(str, line)) for line in command_lines]]),
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Answer(*rest, frozenset(names.split())) for *rest, names in json.loads(done.stdout)]
