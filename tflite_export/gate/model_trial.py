"""Tries a model in a child process before this process opens it.

Interpreters do not verify the files that they map: a hostile file can crash them, make them loop or
fill the memory. In a child, that becomes a one-line error about the file. It is not a sandbox: the
child has the same permissions as this process.
"""

import contextlib
import faulthandler
import json
import os
import pathlib
import resource
import select
import signal
import time
from typing import NoReturn

from tff_keyboard.storage import json_text
from tff_keyboard.storage.errors import CheckFailed, ExportError, UserError
from tflite_export.format import signatures
from tflite_export.runtime import interpreters, training_step
from tflite_export.runtime.hybrid_keyboard import open_keyboard

CPU_SECONDS = 60  # a valid file takes 0.2
SECONDS = 600  # wall time, enough on a busy machine
MEMORY_BYTES = 4 * 2**30  # in addition to the memory of this process
MAX_BYTES = 2**15  # of the child's message; a pipe takes 2**16 at once
_MAX_CHARACTERS = 2_000  # of the child's message; JSON needs up to 12 bytes for a character

_TEXTS = ("see you ", "wh")


def use_in_child(path: pathlib.Path) -> None:
    """Opens a model in a child, types on it, and trains it for one step if it can be trained.

    The child is a fork of this process, which imports the runtime first, so that the child starts
    quickly.

    Raises:
      ExportError: If the model is refused, or cannot be used.
      CheckFailed: If the model ends the child, or the child does not end.
    """
    interpreters.import_quietly()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _use_and_exit(path, writing)
    os.close(writing)
    deadline = time.monotonic() + SECONDS
    output, code = b"", None
    try:
        output = _read_to_end(reading, deadline)
        code = _wait(child, deadline) if len(output) <= MAX_BYTES else None
    finally:
        os.close(reading)
        if code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if code is None or code == -signal.SIGXCPU:
        raise CheckFailed(f"{path}: the interpreter does not finish. Do not use this file.")
    if code:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise CheckFailed(f"{path}: crashes the interpreter ({how}). Do not use this file.")
    if problem := _problem(path, output):
        raise ExportError(problem)


def _read_to_end(reading: int, deadline: float) -> bytes:
    """Reads the child's message until it closes the pipe, exceeds the limit, or time is up."""
    output = b""
    while len(output) <= MAX_BYTES:
        seconds = max(0.0, deadline - time.monotonic())
        if not select.select([reading], [], [], seconds)[0]:
            break
        some = os.read(reading, 2**16)
        if not some:
            break
        output += some
    return output


def _wait(child: int, deadline: float) -> int | None:
    """Returns the child's exit code, minus the signal that ended it, or None if time is up."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)


def _problem(path: pathlib.Path, output: bytes) -> str:
    """Returns the problem that the child found, or "".

    Raises:
      CheckFailed: If the child did not answer, because the file made the interpreter end the
        process.
    """
    try:
        problem = json_text.parse(output)
    except json_text.InvalidJsonError:
        problem = None
    if not isinstance(problem, str):
        raise CheckFailed(f"{path}: crashes the interpreter (no answer). Do not use this file.")
    return problem


def _use_and_exit(path: pathlib.Path, writing: int) -> NoReturn:
    """Runs in the child: writes "" or the problem, and exits without the parent's clean-up."""
    code = 1
    faulthandler.disable()  # the parent reports the crash
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, int(time.process_time()) + CPU_SECONDS)
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY_BYTES)
        try:
            _use(path)
            problem = ""
        except UserError as error:
            problem = str(error)[:_MAX_CHARACTERS]
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            problem = f"{path}: cannot be used as a keyboard ({why}). Export it again."
        os.write(writing, json.dumps(problem).encode())
        code = 0
    finally:
        os._exit(code)


def _use(path: pathlib.Path) -> None:
    keyboard = open_keyboard(path)
    for text in _TEXTS:
        keyboard.strip_for(text)
    if signatures.TRAIN in keyboard.network.signature_names:
        training_step.train_message(keyboard.network, ["see", "you"], learning_rate=0.01)


def _limit(what: int, maximum: int) -> None:
    """Lowers a resource limit to `maximum`. A limit that is already lower stays."""
    with contextlib.suppress(ValueError):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (maximum, hard))
