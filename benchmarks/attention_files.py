"""The files of the trainings of `attention_sweeps.py`, a JSON each."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from benchmarks.attention_rules import Rule
from benchmarks.attention_settings import Setting


def read_trainings(folder: pathlib.Path, name: str = "*") -> list[dict[str, Any]]:
    """All that are finished, by name of file.

    Args:
      folder: The working folder.
      name: Of the setting, `Setting.name`; or a pattern.

    Raises:
      ValueError: A file is no training, or one of another version.
    """
    return [read_training(path) for path in sorted(folder.glob(f"{name}_seed*.json"))]


def read_training(path: pathlib.Path) -> dict[str, Any]:
    """One.

    Raises:
      ValueError: The file is no training, or one of another version.
    """
    try:
        training = json.loads(path.read_text())
        _check(training["setting"])
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        raise ValueError(f"{path}: no training of attention_sweeps. Remove it.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}. Remove it to train it again.") from None
    return training


def _check(setting: Mapping[str, Any]) -> None:
    """Raises where a training could be told other things than today."""
    for kind, found in ((Setting, setting), (Rule, setting["rule"])):
        keys = {field.name for field in dataclasses.fields(kind)}
        if wrong := sorted(keys ^ found.keys()):
            verb = "has" if wrong[0] in found else "lacks"
            raise ValueError(f"its setting {verb} '{wrong[0]}': it is of another version")
