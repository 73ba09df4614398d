"""Several files in one directory that are replaced together or not at all.

    write to a hidden directory -> sync to disk -> rename that directory: the new set now exists
        -> move each file to its place; remove the files that the new set does not have

A kill before the rename leaves the old set. A kill after it leaves a hidden directory
`.NAME.ready`, and the next writer of the set continues from there (`finish`). Readers change
nothing: they reject a set that `is_interrupted`. Such a directory may have come with another user's
files, so the writer takes from it only the names that it would replace anyway.
"""

import contextlib
import json
import os
import pathlib
import shutil
import stat
from collections.abc import Callable, Collection, Iterable

from tff_keyboard.storage import directories, errors, in_progress

_GONE = ".gone"  # names of the files to remove, as a JSON list
_MOST_BYTES_OF_GONE = 2**14


def publish(
    staged: pathlib.Path, target: pathlib.Path, files: Collection[str], parts: Collection[str]
) -> None:
    """Moves finished files next to `target`, replacing the files of an older set.

    Args:
      staged: A `directories.scratch_directory` of `target` that contains `files`. Its other files
        are dropped, and the directory is gone afterwards.
      target: The path that gives the set its directory and name.
      files: Names of the files of the new set.
      parts: All file names that a set of this name may have. Those not in `files` are removed.

    Raises:
      OSError: If the files cannot be written. The old set is then complete.
      ProgramError: As for `finish`.
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
    """Returns the hidden directory that exists while the set of `target` is being moved."""
    return target.with_name(f".{target.name}.ready")


def is_interrupted(target: pathlib.Path) -> bool:
    """Checks if a writer is moving this set or was killed while moving it.

    If so, old and new files may be mixed.
    """
    return os.path.lexists(ready_directory(target))


def finish(target: pathlib.Path, parts: Collection[str]) -> None:
    """Continues a `publish` that was killed. Does nothing if there is none.

    Args:
      target: As for `publish`.
      parts: All file names that a set of this name may have. No other file is touched.

    Raises:
      OSError: If a permission is missing.
      ProgramError: If the hidden directory was not left by `publish`. Nothing is changed.
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
    """Returns the names to move and to remove, all in `parts`, or None if nothing is left."""
    ready = ready_directory(target)
    names: list[str] = []
    try:
        if not _is_ours(ready.lstat(), stat.S_ISDIR):
            raise _foreign(ready, "it is not a directory that you own")
        with os.scandir(ready) as entries:
            for entry in entries:
                if entry.name not in (*parts, _GONE):
                    raise _foreign(ready, f"{entry.name!r} is not a part of {target.name}")
                if not _is_ours(entry.stat(follow_symlinks=False), stat.S_ISREG):
                    raise _foreign(ready, f"{entry.name!r} is not a file that you own")
                names.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return None  # or a living writer moves it
    return sorted(set(names) - {_GONE}), _read_gone(ready, parts)


def _read_gone(ready: pathlib.Path, parts: Collection[str]) -> list[str]:
    wrong = _foreign(ready, f"{_GONE!r} is not a list of parts")
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
        f"{ready}: not the state of an interrupted write ({why}). Nothing was changed. Inspect it, "
        "remove it, and run the same command again."
    )
