"""Starts commands of `tff-keyboard` in processes that have TensorFlow already.

Importing TensorFlow and TFF takes several seconds of a core, which is a large part of a short
training. So one process, the *fork server*, imports them once, and forks a process for each
command. A forked process shares the memory of the imports, and nothing else: it has the output, the
signals and the exit code that the command has in a process of its own.

The server reads a JSON object `{"words": [...], "log": PATH}` from each line of its standard input,
and answers with two lines: `{"pid": N}` at once, and `{"pid": N, "code": C}` when the command has
ended. It ends with its standard input, and its commands with it.
"""

import atexit
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from tff_keyboard.host import children, progress, quiet
from tff_keyboard.storage import json_text
from tff_keyboard.storage.errors import ProgramError

_POLL_SECONDS = 0.1
_READ_BYTES = 1 << 16


class ForkServer:
    """The server, seen from the process that started it. It begins with the first command.

    `close` ends it, and with it the commands that still run.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._started: list[int] = []
        self._codes: dict[int, int] = {}

    def start(self, words: Sequence[str], log: pathlib.Path) -> "ForkedCommand":
        """Starts `tff-keyboard` with the arguments `words`. Its output is appended to `log`.

        Raises:
          ProgramError: The server has ended, because its imports failed or it was killed.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                children.python_module(__name__), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        request = json.dumps({"words": list(words), "log": str(log)}).encode() + b"\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise _ended() from None
        while not self._started:
            self._read(timeout=None)
        return ForkedCommand(self, self._started.pop())

    def code_of(self, pid: int, *, wait: bool = False) -> int | None:
        """Returns the exit code of a command, negative for a signal; None while it runs."""
        self._read(timeout=0.0)
        while wait and pid not in self._codes:
            self._read(timeout=None)
        return self._codes.get(pid)

    def close(self) -> None:
        """Ends the server and its commands."""
        if self._process is not None:
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # the server was killed
                self._process.stdin.close()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def _read(self, timeout: float | None) -> None:
        """Reads the answers that are there, and waits for one up to `timeout` seconds."""
        assert self._process is not None
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        if not select.select([output], [], [], timeout)[0]:
            return
        data = os.read(output, _READ_BYTES)
        if not data:
            raise _ended()
        *lines, self._unread = (self._unread + data).split(b"\n")
        for answer in map(json_text.parse, lines):
            if "code" in answer:
                self._codes[answer["pid"]] = answer["code"]
            else:
                self._started.append(answer["pid"])


class ForkedCommand:
    """A command of the server, with the part of `subprocess.Popen` that a pool needs."""

    def __init__(self, server: ForkServer, pid: int):
        self.pid = pid
        self._server = server

    def poll(self) -> int | None:
        """Returns the exit code; None while the command runs."""
        return self._server.code_of(self.pid)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        if self.poll() is None:  # until its code is read, nothing else gets its process id
            os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> int:
        """Waits for the end, and returns the exit code."""
        code = self._server.code_of(self.pid, wait=True)
        assert code is not None
        return code


def _ended() -> ProgramError:
    return ProgramError("The process that starts the trainings has ended. Run the command again.")


def _serve() -> None:
    """Serves the commands of standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the commands
    answers = os.dup(1)
    os.dup2(2, 1)  # what an import prints is no answer
    quiet.import_tensorflow_federated()
    from tff_keyboard.training import central, federated  # noqa: F401

    server, unread = os.getpid(), b""
    while True:
        if select.select([0], [], [], _POLL_SECONDS)[0]:
            data = os.read(0, _READ_BYTES)
            if not data:
                return
            *lines, unread = (unread + data).split(b"\n")
            for request in map(json_text.parse, lines):
                pid = os.fork()
                if pid == 0:
                    os.close(answers)
                    _run(request, server)
                _answer(answers, pid=pid)
        _report_ended(answers)


def _report_ended(answers: int) -> None:
    """Writes the exit code of each command that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # there are none
            return
        if pid == 0:
            return
        _answer(answers, pid=pid, code=os.waitstatus_to_exitcode(status))


def _answer(output: int, **values: int) -> None:
    os.write(output, json.dumps(values).encode() + b"\n")


def _run(request: dict[str, Any], server: int) -> None:
    """Runs a command in this process, a child of the process `server`, and ends the process."""
    code = 1
    try:
        children.ask_for_signal_at_end_of(server, signal.SIGTERM)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        progress.begin()
        sys.argv = ["tff-keyboard", *request["words"]]
        (script,) = metadata.entry_points(group="console_scripts", name="tff-keyboard")
        script.load()()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        atexit._run_exitfuncs()
        os._exit(code)


if __name__ == "__main__":
    _serve()
