"""The record of participation: the separation holds across runs and re-prepared stores."""

import stat

import numpy as np
import pytest

from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.privacy.ledger.participation import (
    ParticipationRecord,
    cohorts_before,
    record_path,
)
from tff_keyboard.storage.errors import RunDirectoryError

PEOPLE = [f"{n:016x}" for n in range(24)]
SEPARATION = 5


def run_rounds(path, name, first, last, *, seed=1, people=PEOPLE):
    """Runs the rounds of a run on the store, as `train_federated` does."""
    cohorts = {}
    record = ParticipationRecord(path, name, people, lambda r: cohorts[r])
    record.restart_after(first - 1)
    sampler = CohortSampler(
        TrainConfig(clients_per_round=3, seed=seed, min_separation_rounds=SEPARATION),
        len(people),
        earlier=cohorts_before(path, name, people, SEPARATION - 1),
    )
    for number in range(first, last + 1):
        cohorts[number] = sampler.cohort(number).selected
        record.before_release(number, None, {})
    return [cohorts[number] for number in range(first, last + 1)]


def assert_separated(cohorts):
    for t, cohort in enumerate(cohorts):
        for earlier in cohorts[max(t - SEPARATION + 1, 0) : t]:
            assert not set(cohort) & set(earlier)


def test_without_the_record_the_separation_is_violated(tmp_path):
    one = run_rounds(tmp_path / "a", "one", 1, 6, seed=1)
    other = run_rounds(tmp_path / "b", "other", 1, 6, seed=2)
    with pytest.raises(AssertionError):
        assert_separated([*one, *other])


@pytest.mark.parametrize("seed", range(5))
def test_the_separation_holds_across_runs(tmp_path, seed):
    path = tmp_path / "record"
    runs = [run_rounds(path, name, 1, 6, seed=seed + k) for k, name in enumerate("abc")]
    assert_separated([cohort for run in runs for cohort in run])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_resumed_run_has_the_same_cohorts_and_file(tmp_path):
    files = []
    for name, stops in (("straight", [(1, 7)]), ("stopped", [(1, 5), (4, 7)])):
        path = tmp_path / name
        run_rounds(path, "before", 1, 3)
        parts = {}
        for first, last in stops:
            parts.update(
                zip(
                    range(first, last + 1), run_rounds(path, "me", first, last, seed=7), strict=True
                )
            )
        files.append((path.read_bytes(), [parts[r].tolist() for r in range(1, 8)]))
    assert files[0] == files[1]


def test_run_is_rejected_if_another_run_used_the_store(tmp_path):
    path = tmp_path / "record"
    run_rounds(path, "one", 1, 2)
    run_rounds(path, "two", 1, 2)
    with pytest.raises(RunDirectoryError, match=r"names it two.*Start a new run directory"):
        run_rounds(path, "one", 3, 4)


def test_clients_are_recognised_in_a_new_store(tmp_path):
    path = tmp_path / "record"
    cohorts = run_rounds(path, "one", 1, 4)
    shuffled = list(np.random.default_rng(0).permutation(PEOPLE[:-2]))
    before = cohorts_before(path, "two", shuffled, 2)
    last = [{shuffled[i] for i in cohort} for cohort in before]
    expected = [{PEOPLE[i] for i in cohort} & set(shuffled) for cohort in cohorts[-2:]]
    assert last == expected
    assert all(cohort.tolist() == sorted(cohort) for cohort in before)
    assert cohorts_before(path, "two", shuffled, 0) == []


def test_resumed_run_sees_the_record_before_its_start(tmp_path):
    path = tmp_path / "record"
    cohorts = run_rounds(path, "one", 1, 2)
    run_rounds(path, "two", 1, 3)
    for name, expected in (("one", []), ("two", cohorts)):
        found = cohorts_before(path, name, PEOPLE, 9)
        assert [set(cohort) for cohort in found] == list(map(set, expected))
    assert len(cohorts_before(path, None, PEOPLE, 9)) == 5


def test_too_few_clients_after_a_larger_run(tmp_path):
    path = tmp_path / "record"
    record = ParticipationRecord(path, "large", PEOPLE, lambda r: np.arange(22))
    record.before_release(1, None, {})
    with pytest.raises(ValueError, match="Round 1 needs 3 clients, but only 2 are free"):
        run_rounds(path, "next", 1, 1)


def test_damage_is_one_line_and_an_incomplete_end_is_dropped(tmp_path):
    path = tmp_path / "record"
    run_rounds(path, "one", 1, 2)
    path.write_bytes(path.read_bytes() + b'{"run": "one", "rou')
    assert len(run_rounds(path, "one", 3, 3)) == 1
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(RunDirectoryError, match="line 1 is damaged"):
        run_rounds(path, "one", 4, 4)


def test_other_salt_is_an_error(tmp_path):
    path = tmp_path / "record"
    run_rounds(path, "old", 1, 2)  # from a version without a salt id
    record = ParticipationRecord(path, "one", PEOPLE, lambda r: np.arange(3), "salt")
    record.before_release(1, None, {})
    assert len(cohorts_before(path, "two", PEOPLE, 4, "salt")) == 3
    with pytest.raises(RunDirectoryError, match=r"run one had another .*noise_secret"):
        cohorts_before(path, "two", PEOPLE, 4, "rotated")


def test_missing_rounds_are_an_error(tmp_path):
    path = tmp_path / "record"
    run_rounds(path, "one", 1, 4)
    path.unlink()
    with pytest.raises(RunDirectoryError, match="has 0 of the 4 rounds"):
        run_rounds(path, "one", 5, 6)


def test_record_is_next_to_the_store(tmp_path):
    assert record_path(tmp_path / "data" / "sms") == (tmp_path / "data" / "sms.participation.jsonl")
