"""Finds the file of a study that is given by its name, such as `rules_irc`.

Names are those of the files in `configs/studies` of the current directory or, if it has none of
that name, of the shipped files.
"""

import difflib
import pathlib

from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError

_FOLDER = pathlib.Path("configs", "studies")


def find(study: pathlib.Path) -> pathlib.Path:
    """Returns the TOML file of a study.

    Args:
      study: Its path, or its name: one word without a folder and a suffix.
    """
    if study.is_file() or study.suffix or len(study.parts) > 1:
        return study  # `study_file.load` reports what is wrong with it
    folders = (shipped_files.ROOT / _FOLDER, _FOLDER)  # files of the later folder win
    paths = {path.stem: path for folder in folders for path in folder.rglob("*.toml")}
    name = str(study)
    if name in paths:
        return paths[name]
    if not paths:
        raise UsageError(
            f"No study is named {name!r}: there is no {_FOLDER} here. Pass the path of a study's "
            "TOML file."
        )
    near = difflib.get_close_matches(name, paths, n=1, cutoff=0.5)
    suggestion = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"No study is named {name!r}.{suggestion} Studies: {', '.join(sorted(paths))}. Or pass "
        "the path of a study's TOML file."
    )
