"""`origin.json`: the random id of a run, and the runs that led to its initial model.

A run records them when it begins (`lineage.py`). Its id is also in its ledger and in its models, so
that a ledger or a model of another run in its directory is not taken for its own.
"""

import dataclasses
from typing import Any

from tff_keyboard.storage import files, typed_json
from tff_keyboard.storage.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """A run that led to an initial model, as recorded when a later run began.

    Attributes:
      model: Its path, as in the config of the later run.
      path: The absolute path of the run directory; "" if the model was in no run directory.
      run_id: Its random id; "" if it has none, because an earlier version began it.
      rounds: Released rounds by its ledger at this time; 0 without a ledger.
      last_content: Tag of the data of the last of these rounds, if its noise depends on tags.
    """

    model: str
    path: str = ""
    run_id: str = ""
    rounds: int = 0
    last_content: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """The content of `origin.json`.

    Attributes:
      run_id: The random id of the run.
      earlier_runs: The runs that led to the initial model, the newest first, and other sources of
        initial weights.
      chosen_by_validation: Whether metrics of validation could choose the model in any start of the
        run, also if its config was changed later.
      changes_client_work: Whether a program changes the work of its clients, such as `attack`.
    """

    run_id: str
    earlier_runs: list[EarlierRun] = dataclasses.field(default_factory=list)
    chosen_by_validation: bool = False
    changes_client_work: bool = False


def read_origin(run: RunDirectory) -> Origin | None:
    """Returns the record of a run, or None if it has none.

    Raises `RunDirectoryError` if it is damaged.
    """
    if not run.origin_path.exists():
        return None
    try:
        content: Any = files.read_json(run.origin_path)
        origin: Origin = typed_json.read(Origin, content, "origin")
    except ValueError as error:
        raise files.damaged(run.origin_path, str(error)) from None
    return origin


def id_of_run(run: RunDirectory) -> str:
    """Returns the random id of a run; "" if it has none."""
    origin = read_origin(run)
    return "" if origin is None else origin.run_id
