"""Splits the metrics of a private run into public and withheld ones.

A guarantee covers the models and values computed from them. Losses, counts and a digest of the
cohort come directly from the clients' text. A training writes them into a separate file of mode
0600 and leaves them out of `metrics.jsonl`, `metrics.csv` and TensorBoard. The column `withheld` in
the row of round 1 lists them.
"""

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

from tff_keyboard.storage import files, metrics_rows
from tff_keyboard.storage.metrics_rows import ROUND, Row, Value
from tff_keyboard.training.loop.release import RoundReleaseManager

NOTE = "withheld"  # column with the names of the withheld metrics


class WithholdingRelease(RoundReleaseManager):
    """Gives each manager the public metrics. The others go to `path`, JSON lines of mode 0600."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        is_public: Callable[[str], bool],
        released: Sequence[RoundReleaseManager],
    ):
        self._path = pathlib.Path(path)
        self._is_public = is_public
        self._released = released

    def rounds_on_disk(self) -> int:
        """Returns the number of rounds that are complete in all files."""
        rounds = [manager.rounds_on_disk() for manager in self._released]
        known = [number for number in rounds if number is not None]
        return min([len(metrics_rows.read_sound_rows(self._path)), *known])

    def restart_after(self, round_num: int) -> None:
        kept = metrics_rows.read_sound_rows(self._path)[:round_num]
        lines = [metrics_rows.row_line(row) for row in kept]
        files.write_atomically(self._path, lines, mode=files.OWNER_ONLY)
        for manager in self._released:
            manager.restart_after(round_num)

    async def release(self, value: Mapping[str, Value], key: int) -> None:
        secret: Row = {name: x for name, x in value.items() if not self._is_public(name)}
        public: Row = {name: x for name, x in value.items() if name not in secret}
        if key == 1:
            public[NOTE] = " ".join(secret)
        line = metrics_rows.row_line({ROUND: key} | secret)
        files.append(self._path, line, mode=files.OWNER_ONLY)
        for manager in self._released:
            await manager.release(public, key)
