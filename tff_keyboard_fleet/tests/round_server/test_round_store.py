"""The store over kills and time: uploads, seats, pseudonyms, one model for each round."""

import contextlib
import dataclasses
import os

import pytest

from tff_keyboard.storage.errors import ProgramError, RunDirectoryError
from tff_keyboard_fleet.round_server import rounds
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.round_server.tables import FILE, Upload
from tff_keyboard_fleet.wire.messages import Refused
from tff_keyboard_fleet.wire.tokens import Participation

ROUND_SETTINGS = RoundSettings(
    goal=2, max_seats=3, min_reports=2, deadline_seconds=100, separation=2
)
A, B, C, D = (bytes([n]) * 16 for n in b"ABCD")


class Clock:
    """A clock that only moves when a test sets it."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def store(folder, clock):
    with contextlib.closing(RoundStore(folder, ROUND_SETTINGS, clock)) as store:
        store.open_round(1, "m0", "p")
        yield store


def opened_again(folder, clock):
    """Opens the store as after a kill, with another SQLite connection."""
    return contextlib.closing(RoundStore(folder, ROUND_SETTINGS, clock))


def seat(store, device):
    round_, assignment = store.take_seat(device, f"{device[0]}-{os.urandom(4).hex()}")
    return round_.number, assignment


def upload(store, device, name=b"x"):
    """Takes a seat and uploads. Returns the number of the round and the upload."""
    number, assignment = seat(store, device)
    sent = Upload(assignment, 1.0, 2.0, "float32", name, name.hex())
    store.accept(number, device, sent)
    return number, sent


def code(call, *arguments):
    with pytest.raises(Refused) as refused:
        call(*arguments)
    return refused.value.code


def test_full_disk_is_reported_and_the_call_can_be_repeated(store):
    database = store._db
    number, assignment = seat(store, A)
    database.do("PRAGMA max_page_count = 1")  # becomes what it has
    sent = Upload(assignment, 1.0, 2.0, "float32", bytes(99_999), "")
    with pytest.raises(ProgramError, match=r"full\. Accepted uploads are not lost"):
        store.accept(number, A, sent)
    database.do("PRAGMA max_page_count = 9999")
    assert store.accept(number, A, sent) == (Participation("", 1, 1), 1)


def test_uploads_come_back_in_the_order_of_their_arrival(store):
    seats = {device: seat(store, device)[1] for device in (A, B, C)}
    for position, device in enumerate((C, A), start=1):
        sent = Upload(seats[device], 1.0, 2.0, "float32", device, "")
        assert store.accept(1, device, sent) == (Participation("", 1, 1), position)
    assert store.round.state == rounds.AGGREGATING
    assert [found.payload for found in store.uploads(1, 1)] == [C, A]


def test_a_kill_at_any_moment_loses_no_upload(store, folder, clock):
    _, first = upload(store, A)
    number, assignment = seat(store, B)
    with opened_again(folder, clock) as again:
        assert again.round.accepted == 1
        assert again.run_id == store.run_id
        assert again.accept(1, A, first) == (Participation("", 1, 1), 1)  # the answer was lost
        again.accept(number, B, Upload(assignment, 1.0, 2.0, "float32", b"b", "b"))
    with opened_again(folder, clock) as again:
        assert again.round.state == rounds.AGGREGATING
        assert [found.payload for found in again.uploads(1, 1)] == [b"x", b"b"]


def test_an_error_within_a_transaction_leaves_nothing(store, monkeypatch):
    number, assignment = seat(store, A)
    monkeypatch.setattr(rounds, "with_upload", lambda *_: 1 / 0)
    sent = Upload(assignment, 1.0, 2.0, "float32", b"x", "")
    with pytest.raises(ZeroDivisionError):
        store.accept(number, A, sent)
    monkeypatch.undo()
    assert store.round.accepted == 0
    assert store.accept(number, A, sent)[1] == 1


def test_a_seat_is_of_one_device_and_takes_one_upload(store):
    number, sent = upload(store, A)
    another = Upload(sent.assignment, 1.0, 2.0, "float32", b"y", "other")
    assert code(store.accept, number, A, another) == "replay"
    assert code(store.accept, number, B, sent) == "unknown_round"
    assert code(store.accept, number + 1, A, sent) == "unknown_round"
    assert not store.has_seat(number, B, sent.assignment)
    assert store.has_seat(number, A, sent.assignment)


def test_second_check_in_returns_the_same_seat(store):
    assert seat(store, A) == seat(store, A)
    assert store.round.seats == 1


def test_seats_end_with_over_selection(store):
    seats = [seat(store, device) for device in (A, B, C)]
    assert store.take_seat(D, "d") is None
    assert store.take_seat(C, "c")[1] == seats[2][1]  # its own is kept while the round runs


def test_surplus_and_late_uploads_have_different_codes(store, clock):
    number, surplus = seat(store, C)
    upload(store, A)
    upload(store, B)
    sent = Upload(surplus, 1.0, 2.0, "float32", b"c", "")
    assert code(store.accept, number, C, sent) == "surplus"
    store.release(1)
    store.open_round(2, "m1", "p")
    number, late = seat(store, D)
    clock.now += 100
    assert code(store.accept, number, D, Upload(late, 1.0, 2.0, "float32", b"d", "")) == "late"


def test_an_abandoned_round_forgets_its_uploads_and_its_devices_wait(store, clock):
    """A device would refuse to take part in the round again: its record does not know why."""
    upload(store, A)
    clock.now += 100
    assert (store.round.number, store.round.attempt, store.round.seats) == (1, 2, 0)
    assert not list(store.uploads(1, 1))
    assert store.is_too_soon(Participation(store.run_id, 1, 1))
    assert code(store.take_seat, A, "again") == "too_soon"
    upload(store, B)
    upload(store, C)
    assert store.wait_for_uploads(1).attempt == 2


def test_a_device_waits_for_the_separation_and_is_then_forgotten(store, folder):
    for number, devices in [(1, (A, B)), (2, (C, D)), (3, (A, B))]:
        for device in devices:
            upload(store, device)
        store.release(number)
        store.open_round(number + 1, f"m{number}", "p")
        for device in devices:  # separation 2: not in the next
            assert code(store.take_seat, device, "again") == "too_soon"
        took_part = Participation(store.run_id, number, 1)
        assert store.is_too_soon(took_part)
    assert not store.is_too_soon(Participation(store.run_id, 2, 1))
    data = b"".join(path.read_bytes() for path in folder.glob(FILE + "*"))
    assert A in data
    assert C not in data


def test_release_deletes_uploads(store):
    upload(store, A)
    upload(store, B)
    store.release(1)
    assert not list(store.uploads(1, 1))
    assert store.round.state == rounds.RELEASED
    assert store.take_seat(C, "c") is None


@pytest.mark.parametrize("separation", [1, 2, 3])
def test_a_lost_answer_is_asked_for_again_when_its_round_is_released(folder, clock, separation):
    round_settings = dataclasses.replace(ROUND_SETTINGS, separation=separation)
    with contextlib.closing(RoundStore(folder, round_settings, clock)) as store:
        store.open_round(1, "m0", "p")
        (_, sent), _ = upload(store, A), upload(store, B)
        store.release(1)
        assert store.accept(1, A, sent) == (Participation("", 1, 1), 1)
        store.open_round(2, "m1", "p")
        if separation == 1:
            assert store.take_seat(A, "again") is not None
        for device in (C, D):
            upload(store, device)
        store.release(2)
        if separation <= 2:  # forgotten
            assert code(store.accept, 1, A, sent) == "unknown_round"


def test_run_resumes_at_its_checkpoint(store, folder, clock):
    store.keep_model(0, "m0")
    for device in (A, B):
        upload(store, device)
    store.keep_model(1, "m1")
    with opened_again(folder, clock) as again:  # killed before the checkpoint: computed anew
        again.restart_after(0)
        assert len(list(again.uploads(1, 1))) == 2
        again.open_round(1, "m0", "p")
        assert again.wait_for_uploads(1).accepted == 2
    with opened_again(folder, clock) as again:  # killed after it: released now
        again.restart_after(1)
        assert again.model_after(1) == "m1"
        again.open_round(2, "m1", "p")
        assert again.round.number == 2
    with opened_again(folder, clock) as again, pytest.raises(RunDirectoryError, match="two models"):
        again.restart_after(0)


def test_a_round_has_one_model(store):
    with pytest.raises(RunDirectoryError, match="a different model"):
        store.open_round(1, "another", "p")
    store.open_round(1, "m0", "another plan")
    assert store.round.plan == "another plan"


def test_waiting_ends(store):
    store.stop()
    assert store.wait_for_uploads(1) is None


def test_a_file_that_is_no_database_is_told(folder, clock):
    (folder / FILE).write_bytes(b"something else, longer than a header of SQLite" * 10)
    with pytest.raises(ProgramError, match=FILE):
        RoundStore(folder, ROUND_SETTINGS, clock)


def test_file_has_mode_0600(store, folder):
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600
