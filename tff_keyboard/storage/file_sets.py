"""Several files beside each other that appear together or not at all, also over an older set.

    work aside -> all on disk -> one rename of their directory: from here on the new set is there
               -> each file is moved to its place; what the new set lacks is removed

A kill before the one rename leaves the old set. A kill after it leaves a hidden directory
`.NAME.ready`, from which the next one who comes along, reader or writer, goes on (`finish`):
readers call it before they open anything.
"""

import contextlib
import json
import pathlib
import shutil
from collections.abc import Collection

from tff_keyboard.storage import directories, partial

_GONE = ".gone"  # names to remove, a JSON list


def publish(
    staged: pathlib.Path, target: pathlib.Path, files: Collection[str], gone: Collection[str]
) -> None:
    """Puts finished files beside `target`, replacing those of an older set.

    Args:
      staged: A `directories.scratch_directory` of `target`, which holds `files`; what else it holds
        is dropped. It is gone afterwards.
      target: The file that gives the set its name.
      files: Names of the new set.
      gone: Names of an older set that this one does not have.

    Raises:
      OSError: It cannot be written; the old set is whole.
    """
    finish(target)
    for path in list(staged.iterdir()):
        if path.name not in files:
            path.unlink()
    (staged / _GONE).write_text(json.dumps(sorted(set(gone) - set(files))), encoding="utf-8")
    for path in staged.iterdir():
        partial.sync(path)
    partial.sync(staged)
    directories.put_in_place(staged, _ready(target))
    finish(target)


def finish(target: pathlib.Path) -> None:
    """Goes on where a kill stopped `publish`; does nothing where there is nothing to do.

    Raises:
      OSError: No permission to go on.
    """
    ready = _ready(target)
    try:
        names = sorted(path.name for path in ready.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name != _GONE:
            with contextlib.suppress(FileNotFoundError):  # another process moved it
                (ready / name).replace(target.parent / name)
    with contextlib.suppress(FileNotFoundError):
        for name in json.loads((ready / _GONE).read_text(encoding="utf-8")):
            (target.parent / pathlib.PurePath(name).name).unlink(missing_ok=True)
    partial.sync(target.parent)
    shutil.rmtree(ready, ignore_errors=True)


def _ready(target: pathlib.Path) -> pathlib.Path:
    return target.with_name(f".{target.name}.ready")
