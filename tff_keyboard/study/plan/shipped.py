"""Finds the file of a study that is named, not given by its path: `rules_irc`.

Names are those of the files in `configs/studies`, here or, behind those, among the shipped files.
"""

import difflib
import pathlib

from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError

_FOLDER = pathlib.Path("configs", "studies")


def find(study: pathlib.Path) -> pathlib.Path:
    """The TOML file of a study: its path; or a name, one word without a folder and an ending."""
    if study.is_file() or study.suffix or len(study.parts) > 1:
        return study  # `study_file.load` says what is wrong with it
    folders = (shipped_files.ROOT / _FOLDER, _FOLDER)  # the later one's files count
    known = {path.stem: path for folder in folders for path in folder.rglob("*.toml")}
    name = str(study)
    if name in known:
        return known[name]
    if not known:
        raise UsageError(
            f"No study is named {name!r}: there is no {_FOLDER} here. Give the path of a study's "
            "TOML file."
        )
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    suggestion = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"No study is named {name!r}.{suggestion} There are {', '.join(sorted(known))}; or give "
        "the path of a study's TOML file."
    )
