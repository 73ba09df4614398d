"""The output of `fleet` during and after a run."""

import contextlib
import sqlite3

import pytest

from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard_fleet.round_server import status
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.round_server.tables import FILE, Upload

ROUND_SETTINGS = RoundSettings(
    goal=2, max_seats=3, min_reports=2, deadline_seconds=100, separation=1
)


def test_status_of_a_running_run(tmp_path):
    now = [0.0]
    with contextlib.closing(RoundStore(tmp_path, ROUND_SETTINGS, lambda: now[0])) as store:
        assert status.read_status(tmp_path).newest is None
        for number in (1, 2, 3):
            store.open_round(number, "m", "p")
            for device in (b"a", b"b"):
                seat = f"{number} {device}"
                store.take_seat(device, seat)
                now[0] += 30
                store.accept(number, device, Upload(seat, 1.0, 1.0, "float32", b"", ""))
            store.release(number)
        store.open_round(4, "m", "p")
        store.take_seat(b"c", "c")
        now[0] += 100
        assert store.round.attempt == 2
        store.take_seat(b"c", "c again")
        actual = status.read_status(tmp_path)  # beside the server
    assert (actual.released, actual.abandoned, actual.uploads) == (3, 1, 6)
    assert actual.devices == 3  # of this round and the one before it
    assert (actual.seconds_a_round, actual.uploads_a_round) == (60.0, 2.0)
    assert dict(status.read_status(tmp_path).lines(10, ROUND_SETTINGS.goal)) == {
        "rounds released": "3 of 10",
        "newest round": "4, attempt 2, selecting: 1 seats, 0 of 2 uploads",
        "attempts abandoned": "1",
        "devices remembered": "3",
        "uploads accepted": "6",
        "throughput": "60 rounds, 120 uploads per hour",
        "time left": "about 0.117 hours",
    }


def test_status_without_rounds_is_an_error(tmp_path):
    with pytest.raises(RunDirectoryError, match="no rounds were served"):
        status.read_status(tmp_path)
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(RunDirectoryError, match="is damaged"):
        status.read_status(tmp_path)


@pytest.mark.parametrize("column", ["state", "seats", "accepted", "closed", "number"])
def test_text_of_a_damaged_file_is_not_printed(tmp_path, column):
    with contextlib.closing(RoundStore(tmp_path, ROUND_SETTINGS, lambda: 0.0)) as store:
        store.open_round(1, "m", "p")
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute(f"UPDATE rounds SET {column}=?", ("\x1b[2Jtext",))
    with pytest.raises(RunDirectoryError, match=r"is damaged.*wrong type"):
        status.read_status(tmp_path)
