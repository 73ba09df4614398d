"""Several files beside each other that appear together or not at all, also over an older set.

    work aside -> all on disk -> one rename of their directory: from here on the new set is there
               -> each file is moved to its place; what the new set lacks is removed

A kill before the one rename leaves the old set. A kill after it leaves a hidden directory
`.NAME.ready`, from which the next writer of this set goes on (`finish`). Readers change nothing:
they refuse a set that `is_interrupted`. Such a directory may have come with files of others, so
the writer, too, takes from it no more than the names that it would replace anyway.
"""

import contextlib
import json
import os
import pathlib
import shutil
import stat
from collections.abc import Callable, Collection, Iterable

from tff_keyboard.storage import directories, errors, in_progress

_GONE = ".gone"  # names to remove, a JSON list
_MOST_BYTES_OF_GONE = 2**14


def publish(
    staged: pathlib.Path, target: pathlib.Path, files: Collection[str], parts: Collection[str]
) -> None:
    """Puts finished files beside `target`, replacing those of an older set.

    `staged` is a `directories.scratch_directory` of `target` that holds `files`; what else it holds
    is dropped, and it is gone afterwards. `parts` are all names that a set of this name may have;
    what is not in `files` is removed. Raises `OSError` if it cannot be written (the old set is
    whole), and what `finish` does.
    """
    finish(target, parts)
    for path in list(staged.iterdir()):
        if path.name not in files:
            path.unlink()
    gone = sorted(set(parts) - set(files))
    (staged / _GONE).write_text(json.dumps(gone), encoding="utf-8")
    for path in staged.iterdir():
        in_progress.sync(path)
    in_progress.sync(staged)
    directories.put_in_place(staged, ready_directory(target))
    _go_on(target, sorted(files), gone)


def ready_directory(target: pathlib.Path) -> pathlib.Path:
    """What lies beside `target` while its set is partly moved."""
    return target.with_name(f".{target.name}.ready")


def is_interrupted(target: pathlib.Path) -> bool:
    """Whether a writer moves this set now, or was killed at it: old and new may be mixed."""
    return os.path.lexists(ready_directory(target))


def finish(target: pathlib.Path, parts: Collection[str]) -> None:
    """For writers: goes on where a kill stopped `publish`; does nothing where nothing is to do.

    Nothing but `parts`, all names that a set of this name may have, is touched. Raises `OSError` if
    there is no permission to go on; `ProgramError` if what lies there is not what `publish` leaves:
    nothing was changed.
    """
    found = _left_by_a_kill(target, parts)
    if found is not None:
        _go_on(target, *found)


def _go_on(target: pathlib.Path, names: Iterable[str], gone: Iterable[str]) -> None:
    ready = ready_directory(target)
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # another process moved it
            (ready / name).replace(target.parent / name)
    for name in gone:
        (target.parent / name).unlink(missing_ok=True)
    in_progress.sync(target.parent)
    with contextlib.suppress(FileNotFoundError):  # another process removes it
        shutil.rmtree(ready)


def _left_by_a_kill(
    target: pathlib.Path, parts: Collection[str]
) -> tuple[list[str], list[str]] | None:
    """Names to move and names to remove, all of them in `parts`; None if nothing is left."""
    ready = ready_directory(target)
    names: list[str] = []
    try:
        if not _is_ours(ready.lstat(), stat.S_ISDIR):
            raise _foreign(ready, "it is no directory of yours")
        with os.scandir(ready) as entries:
            for entry in entries:
                if entry.name not in (*parts, _GONE):
                    raise _foreign(ready, f"{entry.name!r} is no part of {target.name}")
                if not _is_ours(entry.stat(follow_symlinks=False), stat.S_ISREG):
                    raise _foreign(ready, f"{entry.name!r} is no file of yours")
                names.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return None  # or a living writer moves it
    return sorted(set(names) - {_GONE}), _read_gone(ready, parts)


def _read_gone(ready: pathlib.Path, parts: Collection[str]) -> list[str]:
    wrong = _foreign(ready, f"{_GONE!r} is no list of parts")
    try:
        with (ready / _GONE).open("rb") as file:  # a regular file
            data = file.read(_MOST_BYTES_OF_GONE)
    except FileNotFoundError:
        return []  # a kill while the directory was removed
    try:
        gone = json.loads(data)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(gone, list) or not all(
        isinstance(name, str) and name in parts for name in gone
    ):
        raise wrong
    return gone


def _is_ours(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(found.st_mode) and found.st_uid == os.geteuid()


def _foreign(ready: pathlib.Path, why: str) -> errors.ProgramError:
    return errors.ProgramError(
        f"{ready}: not what an interrupted writer leaves ({why}). Nothing was changed. Look at it, "
        "remove it, then run the same command again."
    )
