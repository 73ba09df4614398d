"""The vector of an evaluation: bounded, and its sum gives back the sums of the group."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tff_keyboard_fleet.tests.support.devices import PLAN
from tff_keyboard_fleet.wire import evaluation_sums
from tff_keyboard_fleet.wire.evaluation_sums import OF_OWN_WORDS, OF_TEXT
from tff_keyboard_fleet.wire.plan import Codec, Evaluation, Plan, SecureSums
from tff_keyboard_fleet.wire.secure_sums.grid import from_grid, to_grid

NAMES = {*OF_TEXT, *OF_OWN_WORDS}
EVALUATION = Evaluation(models=["a" * 64, "b" * 64], max_words=64, own_words=0.2)


def sums(seed, max_words=64):
    """Sums of a device within the bounds, as whole numbers except nll."""
    rng = np.random.default_rng(seed)
    counts = {name: float(rng.integers(0, max_words // 4)) for name in NAMES}
    counts["tokens"] = float(max_words)
    return counts | {"nll": float(rng.uniform(0, 5 * max_words))}


def test_sums_of_groups_are_those_of_their_devices():
    grouped, vectors = [], []
    for group in range(3):
        devices = [[[sums(9 * group + 2 * k + m)] * 2 for m in range(2)] for k in range(4)]
        # All models count the same text.
        text = [sums(100 * group + k) for k in range(4)]
        vectors.append(
            np.sum(
                [
                    evaluation_sums.to_vector(one, models, 64)
                    for one, models in zip(text, devices, strict=True)
                ],
                axis=0,
            )
        )
        grouped.append((text, devices))
    assert vectors[0].shape == (EVALUATION.size,)
    actual = evaluation_sums.from_vectors(np.array(vectors), 2, True, 64)
    for group, (text, devices) in enumerate(grouped):
        for model in range(2):
            for variant in range(2):
                values = actual[model][variant]
                for name in OF_TEXT:
                    expected = sum(one[name] for one in text)
                    assert values[name][group] == pytest.approx(expected, rel=1e-12)
                for name in evaluation_sums.OF_MODEL if not variant else OF_OWN_WORDS:
                    expected = sum(one[model][variant][name] for one in devices)
                    assert values[name][group] == pytest.approx(expected, rel=1e-12)
    assert "oov_hits_at_3" not in actual[0][0]


def test_counts_are_exact_on_the_grid_of_a_secure_sum():
    vector = evaluation_sums.to_vector(sums(1), [[sums(2)]], 64)
    steps = to_grid(
        vector, clip_norm=evaluation_sums.clip_norm(len(vector)), step=evaluation_sums.STEP
    )
    values = from_grid(steps.astype("<u8"), step=evaluation_sums.STEP)
    ((actual,),) = evaluation_sums.from_vectors(values[np.newaxis], 1, False, 64)
    for name in OF_TEXT:
        assert actual[name][0] == sums(1)[name]
    assert actual["nll"][0] == pytest.approx(sums(2)["nll"], abs=1e-6)


@hypothesis.given(st.lists(st.floats(0, 1e12), min_size=len(NAMES), max_size=len(NAMES)))
def test_no_device_exceeds_its_bound(values):
    counts = dict(zip(sorted(NAMES), values, strict=True))
    vector = evaluation_sums.to_vector(counts, [[counts, counts]] * 2, 64)
    assert ((vector >= 0) & (vector <= 1)).all()
    assert np.linalg.norm(vector) <= evaluation_sums.clip_norm(len(vector))


def test_sums_with_noise_become_possible():
    vectors = np.random.default_rng(0).normal(size=[50, EVALUATION.size])
    for model in evaluation_sums.from_vectors(vectors, 2, True, 64):
        for values in model:
            assert all((value >= 0).all() for value in values.values())
            words = values["tokens"] - values["eos_tokens"]
            assert (words >= values["oov_tokens"] - 1e-9).all()


def plan(**changes):
    evaluation = dataclasses.replace(EVALUATION, **changes)
    return dataclasses.replace(PLAN, evaluation=evaluation, weighting="uniform")


def test_a_plan_is_read_back_and_has_its_own_record():
    assert Plan.from_bytes(plan().to_bytes()) == plan()
    assert plan().record != plan().population == PLAN.record
    assert plan().upload_size == EVALUATION.size != PLAN.upload_size == PLAN.parameters
    assert b"evaluation" not in PLAN.to_bytes()  # devices of earlier versions follow it


@pytest.mark.parametrize(
    "changed, message",
    [
        (plan(models=[]), "`plan.evaluation.models` must be 1 to 8 different"),
        (plan(models=["a" * 64] * 2), "`plan.evaluation.models` must be 1 to 8 different"),
        (plan(models=[f"{n:064d}" for n in range(9)]), "must be 1 to 8 different"),
        (plan(models=["../../etc"]), "SHA-256"),
        (plan(max_words=0), r"max_words` must be in 1\.\.100000"),
        (plan(max_words=10**6), r"max_words` must be in 1\.\.100000"),
        (plan(own_words=1.0), r"own_words` must be in \[0, 1\)"),
        (plan(own_words=-0.1), r"own_words` must be in \[0, 1\)"),
        (
            dataclasses.replace(plan(), codec=Codec(name="quantised", bits=4)),
            "needs the phase 'upload', and a codec",
        ),
        (
            dataclasses.replace(plan(), phases=["loss", "upload"]),
            "needs the phase 'upload', and a codec",
        ),
    ],
)
def test_unsafe_plans_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        Plan.from_bytes(changed.to_bytes())


def test_devices_follow_the_grid_of_an_evaluation():
    SecureSums(
        clip_norm=evaluation_sums.clip_norm(EVALUATION.size),
        step=evaluation_sums.STEP,
        bits=evaluation_sums.BITS,
        degree=100,
        threshold=60,
    ).require_exact_integers()
