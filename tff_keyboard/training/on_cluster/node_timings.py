"""What the nodes of a cluster did in each round: a row for each part, and a note while it runs.

    round, node, item, start, end, compute_seconds, outcome

Start and end are by the driver's clock, in seconds since the epoch; `item` counts the parts (or
blocks of parts) of each call of a round, those of its evaluation too. This is wall clock, so it is
not the same in every run; rows of rounds that a stop undid stay.
"""

import csv
import io
import pathlib

from tff_keyboard.program.cluster.ray_engine import RayEngine
from tff_keyboard.program.rounds.training_loop import Progress
from tff_keyboard.storage import files
from tff_keyboard.training.round_lines import RoundLines

COLUMNS = ("round", "node", "item", "start", "end", "compute_seconds", "outcome")


class NodeTimings:
    """Called after each round, as `RoundLines`, which it calls with a note on the nodes."""

    def __init__(self, path: pathlib.Path, engine: RayEngine, lines: RoundLines):
        self._path = path
        self._engine = engine
        self._lines = lines

    def __call__(self, done: Progress) -> None:
        """Keeps and shows one round."""
        spans = self._engine.pop_spans()
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        if not self._path.exists():
            writer.writerow(COLUMNS)
        for span in spans:
            seconds = "" if span.compute_seconds is None else f"{span.compute_seconds:.3f}"
            times = f"{span.start:.3f}", f"{span.end:.3f}", seconds
            writer.writerow([done.round_num, span.node, span.item, *times, span.outcome])
        # Seconds tell how much a part had, which a private run withholds.
        files.append(self._path, table.getvalue().encode(), mode=files.OWNER_ONLY)
        again = sum(span.outcome != "done" for span in spans)
        note = f"{len(self._engine.place_names())} nodes, {len(spans) - again} parts"
        self._lines(done, f"{note}, {again} again" if again else note)
        for _, event in self._engine.pop_events():
            self._lines.say(event)
