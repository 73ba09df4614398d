"""Which code of the user may run if only a file names it: a model, or the config of a run.

A saved model and a run directory may come from another person, so what they name is run only if
this user named it before, in a config or a call: the same function, in a file with the same
content. Named parts are remembered in one file for each user:

    $XDG_STATE_HOME/tff-keyboard/trusted_code      (default: ~/.local/state/tff-keyboard/...)

Each line has the SHA-256 of a source file and a reference. On another machine, the environment
variable `TFF_KEYBOARD_TRUST` lists further files (absolute paths) and modules, separated by colons.
They are run whatever their content is.
"""

import contextlib
import contextvars
import os
import pathlib
from collections.abc import Iterator

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ConfigError, ProgramError, printable

VARIABLE = "TFF_KEYBOARD_TRUST"

_is_named_by_file = contextvars.ContextVar("_is_named_by_file", default=False)
_of_this_process: set[tuple[str, str]] = set()  # (SHA-256 of the source, reference)


@contextlib.contextmanager
def named_by_file() -> Iterator[None]:
    """What is loaded in this context is named by a file that may come from another person.

    It also holds for references that a part loads while it runs.
    """
    token = _is_named_by_file.set(True)
    try:
        yield
    finally:
        _is_named_by_file.reset(token)


def check_name(reference: str, key: str) -> None:
    """Checks a reference before anything is imported to find its source.

    Args:
      reference: `module:attribute`, or `file.py:attribute` with an absolute path.
      key: The key that names it, for the error.

    Raises:
      ConfigError: Only a file names it, and this user has never named it.
    """
    if not _is_named_by_file.get() or _is_listed(reference):
        return
    if reference not in {name for _, name in _remembered()}:
        raise _untrusted(reference, key)


def check_content(reference: str, key: str, sha256: str) -> None:
    """Checks the source of a reference, given its SHA-256, before it runs; see `check_name`.

    What the user names is remembered.
    """
    if not _is_named_by_file.get():
        _remember(sha256, reference)
    elif not _is_listed(reference) and (sha256, reference) not in _remembered():
        raise _untrusted(reference, key)


def _untrusted(reference: str, key: str) -> ConfigError:
    source = reference.rpartition(":")[0]
    return ConfigError(
        f"`{key}` = {printable(reference)!r}: no code is run that only a model or a run names, "
        "because it may come from another person. You have not named this code, with this "
        "content, in a config or a call on this machine. Read it, and if you trust it, set the "
        f"environment variable {VARIABLE}={printable(source)}."
    )


def _is_listed(reference: str) -> bool:
    source = reference.rpartition(":")[0]
    entries = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    return any(source == _listed_source(entry) for entry in entries)


def _listed_source(entry: str) -> str:
    """Returns the file or module of an entry of the variable; "" for a relative path.

    A relative path would name another file in each folder.
    """
    path = pathlib.Path(entry)
    if not entry.endswith(".py"):
        return entry
    return str(path.resolve()) if path.is_absolute() else ""


def _file() -> pathlib.Path | None:
    state = os.environ.get("XDG_STATE_HOME")
    try:
        folder = pathlib.Path(state) if state else pathlib.Path.home() / ".local" / "state"
    except RuntimeError:  # no home
        return None
    return folder / "tff-keyboard" / "trusted_code"


def _remembered() -> set[tuple[str, str]]:
    """Returns `(sha256, reference)` of all code that the user has named on this machine."""
    file = _file()
    lines: list[str] = []
    if file is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            lines = file.read_text(encoding="utf-8").split("\n")
    pairs = (line.partition(" ") for line in lines)
    return _of_this_process | {(sha256, reference) for sha256, _, reference in pairs}


def _remember(sha256: str, reference: str) -> None:
    """Records that the user has named this code, for this process and for later ones."""
    if (sha256, reference) in _remembered():
        return
    _of_this_process.add((sha256, reference))
    file = _file()
    if file is None or not reference.isprintable():
        return
    with contextlib.suppress(OSError, ProgramError):  # a home that cannot be written
        files.make_directory(file.parent, mode=0o700)
        files.append(file, f"{sha256} {reference}\n".encode(), mode=files.OWNER_ONLY)
