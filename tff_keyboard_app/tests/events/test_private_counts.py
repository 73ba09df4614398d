"""Private sums of counts: clipping by NumPy, noise of the size stated, and what is refused."""

import numpy as np
import pytest

from tff_keyboard.privacy.accounting import accounting
from tff_keyboard_app.events.private_counts import private_sums

KEY = bytes(range(32))


def released(vectors, **changes):
    arguments = {"clip_norm": 10.0, "noise_multiplier": 1e-6, "delta": 1e-6, "key": KEY}
    return private_sums([np.array(v, float) for v in vectors], **{**arguments, **changes})


def test_no_client_adds_more_than_the_clip_norm():
    vectors = [[3.0, 4.0], [300.0, 400.0], [0.0, 0.0]]
    np.testing.assert_allclose(released(vectors).sums, [3 + 6, 4 + 8], atol=1e-3)


def test_a_vector_that_is_not_finite_is_left_out():
    for broken in (np.nan, 1e39):  # the latter in float32
        np.testing.assert_allclose(released([[3.0, 4.0], [broken, 1.0]]).sums, [3, 4], atol=1e-3)


def test_noise_matches_the_guarantee():
    actual = released([np.zeros(20_000)] * 3, noise_multiplier=2.0)
    assert np.std(actual.sums) == pytest.approx(20.0, rel=0.03)
    assert np.mean(actual.sums) == pytest.approx(0.0, abs=0.6)
    exact = accounting.unsampled_gaussian(noise_multiplier=2.0, participations=1, delta=1e-6)
    assert actual.epsilon == exact.epsilon
    other = released([np.zeros(20_000)] * 3, noise_multiplier=2.0, key=KEY[::-1])
    assert abs(np.corrcoef(actual.sums, other.sums)[0, 1]) < 0.05


@pytest.mark.parametrize("changes", [{"noise_multiplier": 0.0}, {"clip_norm": 0.0}])
def test_rejects(changes):
    with pytest.raises(ValueError, match="must be > 0"):
        released([[1.0]], **changes)


def test_rejects_an_empty_population():
    with pytest.raises(ValueError, match="no client"):
        released([])
