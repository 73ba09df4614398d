"""Uses a model in a child process first, where it may crash.

Interpreters do not verify what they map: a file that was made to can crash them, loop or fill the
memory. In a child that is one line about the file. It is no sandbox: the child may do what this
process may.
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

from tff_keyboard.storage.errors import CheckFailed, ExportError, UserError
from tflite_export import interpreters, signatures
from tflite_export.hybrid_keyboard import open_keyboard

CPU_SECONDS = 60  # a sound file takes 0.2
SECONDS = 600  # on the clock, on a busy machine
MEMORY_BYTES = 4 * 2**30  # more than this process has

_TEXTS = ("see you ", "wh")


def use_in_child(path: pathlib.Path, runtime: str | None = None) -> None:
    """Opens a model, types on it, and trains it a step if it can be trained.

    The child is a fork of this process, which imports the runtime first: it starts in no time.

    Args:
      path: The `.tflite` file.
      runtime: As for `open_interpreter`.

    Raises:
      ExportError: It is refused, or cannot be used.
      CheckFailed: It ends the child, or never ends.
    """
    interpreters.import_quietly(runtime)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _use_and_exit(path, runtime, writing)
    os.close(writing)
    is_over, said = False, b""
    try:
        is_over = bool(select.select([reading], [], [], SECONDS)[0])
        if is_over:
            said = os.read(reading, 2**16)
    finally:
        os.close(reading)
        if not is_over:
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not is_over or code == -signal.SIGXCPU:
        raise CheckFailed(f"{path}: the interpreter does not come to an end. Do not use this file.")
    if code:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise CheckFailed(f"{path}: crashes the interpreter ({how}). Do not use this file.")
    if problem := json.loads(said):
        raise ExportError(problem)


def _use_and_exit(path: pathlib.Path, runtime: str | None, writing: int) -> NoReturn:
    """In the child: says "" or what is wrong, and leaves without any of the parent's clean-up."""
    code = 1
    faulthandler.disable()  # the parent says what happened
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, int(time.process_time()) + CPU_SECONDS)
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY_BYTES)
        try:
            _use(path, runtime)
            problem = ""
        except UserError as error:
            problem = str(error)
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            problem = f"{path}: cannot be used as a keyboard ({why}). Export it again."
        os.write(writing, json.dumps(problem).encode())
        code = 0
    finally:
        os._exit(code)


def _use(path: pathlib.Path, runtime: str | None) -> None:
    keyboard = open_keyboard(path, runtime=runtime)
    for text in _TEXTS:
        keyboard.strip_for(text)
    if signatures.TRAIN in keyboard.network.signature_names:
        from tflite_export import personalisation  # whose statistics take a second to import

        personalisation.train_message(keyboard.network, ["see", "you"], learning_rate=0.01)


def _limit(what: int, most: int) -> None:
    """A lower limit stays as it is."""
    with contextlib.suppress(ValueError):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (most, hard))
