"""Splits the metrics of a private run into public and withheld ones.

A guarantee covers the models and values computed from them. Losses, counts and a digest of the
cohort come directly from the clients' text. A training writes them into a separate file of mode
0600 and leaves them out of `metrics.jsonl`, `metrics.csv` and TensorBoard. The column `withheld` in
the row of round 1 lists them.
"""

import os
import pathlib
import re
from collections.abc import Mapping, Sequence

from tff_keyboard.storage import files, metrics_rows
from tff_keyboard.storage.metrics_rows import ROUND, Row, Value
from tff_keyboard.training.loop import training_loop
from tff_keyboard.training.loop.release import RoundReleaseManager

NOTE = "withheld"  # column with the names of the withheld metrics

# The metrics that a private training may release. This is an allow list: metrics that are not on
# it, including any future ones, are withheld. They are known from the config, noised by the
# mechanism, computed from the released models alone (post-processing), or about other clients
# (validation; the statement says so). The pattern is of metrics of the mechanism and of TFF's
# finalizer, which only a process without code of the user returns under these names.
_OF_PROCESS = re.compile(r"finalizer/|.*dp_query_metrics/")


def is_public(name: str, *, has_own_code: bool = False) -> bool:
    """Checks if a private run may release the metric `name`.

    If the process has code of the user (`has_own_code`), its metrics can have any name and any
    value, so none of them is public.

    >>> is_public("evaluation/perplexity"), is_public("client_work/train/nll"), is_public("clients")
    (True, False, False)
    """
    if name.startswith(training_loop.RESERVED) or name == "clients_selected":
        return True
    # `rejected` is computed from the metrics of the process
    return not has_own_code and (name == "rejected" or _OF_PROCESS.match(name) is not None)


class WithholdingRelease(RoundReleaseManager):
    """Gives each manager the public metrics. The others go to `path`, JSON lines of mode 0600.

    `has_own_code` is whether the process has code of the user.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        released: Sequence[RoundReleaseManager],
        *,
        has_own_code: bool = False,
    ):
        self._path = pathlib.Path(path)
        self._released = released
        self._has_own_code = has_own_code

    def rounds_on_disk(self) -> int:
        """Returns the number of rounds that are complete in all files."""
        rounds = [manager.rounds_on_disk() for manager in self._released]
        counts = [number for number in rounds if number is not None]
        return min([len(metrics_rows.read_sound_rows(self._path)), *counts])

    def restart_after(self, round_num: int) -> None:
        rows = metrics_rows.read_sound_rows(self._path)[:round_num]
        lines = [metrics_rows.row_line(row) for row in rows]
        files.write_atomically(self._path, lines, mode=files.OWNER_ONLY)
        for manager in self._released:
            manager.restart_after(round_num)

    async def release(self, value: Mapping[str, Value], key: int) -> None:
        withheld: Row = {
            name: x
            for name, x in value.items()
            if not is_public(name, has_own_code=self._has_own_code)
        }
        public: Row = {name: x for name, x in value.items() if name not in withheld}
        if key == 1:
            public[NOTE] = " ".join(withheld)
        line = metrics_rows.row_line({ROUND: key} | withheld)
        files.append(self._path, line, mode=files.OWNER_ONLY)
        for manager in self._released:
            await manager.release(public, key)
