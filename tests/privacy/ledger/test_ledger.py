"""The ledger: on disk first, exact after crashes and resumes, and checked for damage."""

import dataclasses
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes import ledger_header
from tff_keyboard.privacy.ledger import ledger as ledger_module
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger, read_ledger, refuse_shared_noise
from tff_keyboard.privacy.registry.blt import BltMechanism
from tff_keyboard.storage.errors import CheckFailed, ProgramError, RunDirectoryError

HEADER = ledger_header()


def ledger_with(path, rounds):
    ledger = PrivacyLedger(path, HEADER)
    for round_num in range(1, rounds + 1):
        ledger.record(round_num, clip_norm=0.5 + round_num, clients=10)
    return ledger


def test_rounds_are_read_back(tmp_path):
    ledger_with(tmp_path / "ledger.jsonl", 3)
    header, rounds = read_ledger(tmp_path / "ledger.jsonl")
    assert header == HEADER
    assert [r["round"] for r in rounds] == [1, 2, 3]
    assert rounds[1]["clip_norm"] == 2.5


def test_a_round_is_synced_before_record_returns(tmp_path, monkeypatch):
    synced = []
    ledger = ledger_with(tmp_path / "ledger.jsonl", 1)
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd)))
    ledger.record(2, clients=9)
    assert synced == [(tmp_path / "ledger.jsonl").stat().st_size]


def test_a_failed_write_raises_and_leaves_the_ledger_whole(tmp_path, monkeypatch):
    ledger = ledger_with(tmp_path / "ledger.jsonl", 2)
    before = (tmp_path / "ledger.jsonl").read_bytes()

    def full(fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ProgramError, match="No space left"):
            ledger.record(3, clients=10)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    ledger.record(3, clients=10)


def test_reopened_ledger_continues(tmp_path):
    ledger_with(tmp_path / "one.jsonl", 5)
    ledger_with(tmp_path / "two.jsonl", 3)
    reopened = PrivacyLedger(tmp_path / "two.jsonl", HEADER)
    for round_num in (4, 5):
        reopened.record(round_num, clip_norm=0.5 + round_num, clients=10)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


@examples(20)
@given(total=st.integers(0, 6), kept=st.integers(0, 6))
def test_a_restart_keeps_the_lines_of_repeated_rounds(tmp_path_factory, total, kept):
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    ledger = ledger_with(path, total)
    before = path.read_bytes()
    if kept > total:
        with pytest.raises(RunDirectoryError, match="rounds are missing"):
            ledger.restart_after(kept)
        return
    ledger.restart_after(kept)
    assert PrivacyLedger(path, HEADER).rounds == total  # they may have been released
    for round_num in range(kept + 1, total + 1):
        assert path.read_bytes() == before
        ledger.record(round_num, clip_norm=0.5 + round_num, clients=10)
    assert path.read_bytes() == before
    ledger.record(total + 1, clients=10)
    assert len(read_ledger(path)[1]) == total + 1


@pytest.mark.parametrize(
    "facts",
    [
        {"clip_norm": 2.6, "clients": 10},
        {"clip_norm": 2.5, "clients": 10, "content": "aa"},
        {"clip_norm": 2.5},
    ],
    ids=["noise", "data", "missing"],
)
def test_a_repeated_round_must_be_the_same_release(tmp_path, facts):
    path = tmp_path / "ledger.jsonl"
    ledger = ledger_with(path, 3)
    before = path.read_bytes()
    ledger.restart_after(1)
    with pytest.raises(RunDirectoryError, match="Round 2 was released before with other data"):
        ledger.record(2, **facts)
    assert path.read_bytes() == before
    ledger.record(2, clip_norm=2.5 * (1 + 1e-7), clients=10)  # as another machine rounds


@pytest.mark.parametrize("result", ["metrics", "checkpoint", "model"])
def test_a_ledger_that_lost_its_last_lines_is_refused(tmp_path, result):
    path = tmp_path / "privacy_ledger.jsonl"
    ledger_with(path, 3)
    if result == "metrics":
        rows = [json.dumps({"round": number}) + "\n" for number in (1, 2, 3, 4)]
        (tmp_path / "metrics.jsonl").write_text("".join(rows))
    elif result == "checkpoint":
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "checkpoints" / "round_00000004.checkpoint").write_bytes(b"")
    else:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "model.json").write_text('{"rounds": 4}')
    with pytest.raises(CheckFailed, match=r"records 3 rounds, but .* is of round 4") as error:
        read_ledger(path)
    assert error.value.exit_code == 5
    PrivacyLedger(path, HEADER).record(4, clients=10)
    assert len(read_ledger(path)[1]) == 4


def test_a_line_torn_by_a_crash_was_never_released(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger_with(path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert PrivacyLedger(path, HEADER).rounds == 2
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:3])


@pytest.mark.parametrize("damage", ["edit", "drop", "swap", "repeat", "junk"])
def test_damage_is_detected_and_named(tmp_path, damage):
    path = tmp_path / "ledger.jsonl"
    ledger_with(path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    if damage == "edit":
        lines[2] = lines[2].replace(b'"clients": 10', b'"clients": 99')
    elif damage == "drop":
        del lines[2]
    elif damage == "swap":
        lines[2], lines[3] = lines[3], lines[2]
    elif damage == "repeat":
        lines.insert(2, lines[2])
    else:
        lines[2] = b"not json\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(RunDirectoryError, match=r"line [34] is damaged"):
        PrivacyLedger(path, HEADER)
    with pytest.raises(RunDirectoryError):
        read_ledger(path)


def test_a_line_of_another_ledger_does_not_fit(tmp_path):
    """Its checksum and its number are correct, but the previous line differs."""
    paths = [tmp_path / name for name in ("ledger.jsonl", "other.jsonl")]
    for path, clip_norm in zip(paths, (0.5, 0.6), strict=True):
        ledger = PrivacyLedger(path, HEADER)
        for round_num in (1, 2, 3):
            ledger.record(round_num, clip_norm=clip_norm if round_num == 1 else 1.0, clients=10)
    lines, others = (path.read_bytes().splitlines(keepends=True) for path in paths)
    paths[0].write_bytes(b"".join([*lines[:2], others[2], *lines[3:]]))
    with pytest.raises(RunDirectoryError, match="line 3 is damaged"):
        read_ledger(paths[0])


def test_other_noise_cannot_continue_a_ledger(tmp_path):
    ledger_with(tmp_path / "ledger.jsonl", 1)
    louder = dataclasses.replace(HEADER, noise_multiplier=0.1)
    with pytest.raises(RunDirectoryError, match=r"noise_multiplier 1\.0 -> 0\.1"):
        PrivacyLedger(tmp_path / "ledger.jsonl", louder)


def test_rounds_come_in_order(tmp_path):
    ledger = ledger_with(tmp_path / "ledger.jsonl", 2)
    for wrong in (2, 4):
        with pytest.raises(ValueError, match="`round_num` must be 3"):
            ledger.record(wrong)


def test_missing_and_empty_files_are_refused(tmp_path):
    with pytest.raises(RunDirectoryError, match="made no privacy claim"):
        read_ledger(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(RunDirectoryError, match="is empty"):
        read_ledger(tmp_path / "empty.jsonl")


@pytest.mark.parametrize("step", [-1, 1])
def test_another_format_is_refused(tmp_path, step):
    path = tmp_path / "ledger.jsonl"
    ledger_with(path, 0)
    content = json.loads(path.read_text())
    assert content["format"] == ledger_module.FORMAT
    content["format"] = ledger_module.FORMAT + step
    del content["checksum"], content["previous"]
    path.write_bytes(ledger_module._line("", content))
    with pytest.raises(RunDirectoryError, match="another version"):
        read_ledger(path)


def test_two_ledgers_with_one_noise_key_are_refused(tmp_path):
    paths = []
    for name, key_id in (("a", "12ab"), ("b", "34cd"), ("c", "12ab"), ("old", ""), ("older", "")):
        paths.append(tmp_path / name / "privacy_ledger.jsonl")
        PrivacyLedger(paths[-1], dataclasses.replace(HEADER, key_id=key_id))
    refuse_shared_noise([*paths[:2], *paths[3:], paths[0], tmp_path / "no" / "ledger"])
    with pytest.raises(RunDirectoryError, match="share a noise key") as error:
        refuse_shared_noise(paths)
    assert f"{tmp_path / 'a'} and {tmp_path / 'c'}" in str(error.value)
    assert "\n" not in str(error.value)


def test_coefficients_are_read_back_exactly(tmp_path):
    header = dataclasses.replace(
        HEADER,
        mechanism=BltMechanism(decays=(0.1 + 0.2, 1 / 3), scales=(0.1, 2 / 7)),
        key_id="ab",
    )
    PrivacyLedger(tmp_path / "l.jsonl", header)
    assert read_ledger(tmp_path / "l.jsonl")[0] == header
    PrivacyLedger(tmp_path / "l.jsonl", header)  # opens


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("noise_multiplier", -1.0),
        ("noise_multiplier", 1e308),
        ("noise_multiplier", 1e-300),
        ("clip_norm", 0.0),
        ("delta", 1.0),
        ("population", 9),
        ("clients_per_round", 0),
        ("selected_per_round", 1001),
        ("sampling", "x"),
        ("min_separation_rounds", 0),
        ("noise_cohort_size", -4),
        ("noise_source", "x"),
        ("vocabulary_rho", -1.0),
        ("vocabulary_delta", 3.0),
    ],
)
def test_a_header_out_of_range_is_refused(tmp_path, key, value):
    """With a checksum that fits: whoever wrote it, no statement can be made from it."""
    path = tmp_path / "ledger.jsonl"
    PrivacyLedger(path, ledger_header()).record(1)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    header = {name: lines[0][name] for name in lines[0] if name not in ("previous", "checksum")}
    first = ledger_module._line("", header | {key: value})
    path.write_bytes(first + ledger_module._line(ledger_module._digest(first), {"round": 1}))
    with pytest.raises(RunDirectoryError, match=rf"line 1: `({key}|selected_per_round)` must be "):
        read_ledger(path)
