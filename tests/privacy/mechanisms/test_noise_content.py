"""Noise that depends on the data that it hides: tags, their chain, and digests of data."""

import hashlib
import hmac
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tff_keyboard.algorithms.rounds.noised import digest_of_data
from tff_keyboard.privacy.mechanisms import noise_content, noise_key
from tff_keyboard.privacy.mechanisms.mechanism import BltMechanism, Gaussian, GaussianAdaptive, Tree
from tff_keyboard.privacy.mechanisms.noise_streams import keyed_draw

KEY = bytes(range(32))
MECHANISMS = {
    "gaussian": Gaussian(),
    "discrete": Gaussian(is_discrete=True),
    "adaptive": GaussianAdaptive(),
    "tree": Tree(),
    "blt": BltMechanism(decays=(0.5, 0.9), scales=(0.3, 0.2)),
}


def tags_of(*contents):
    """Returns the tags of rounds with these contents."""
    tags = []
    for content in contents:
        tags.append(noise_content.next_tag(KEY, tags, content.encode()))
    return tags


def test_a_tag_is_an_hmac_of_the_round_the_tag_before_and_the_data():
    first, second = tags_of("a", "b")
    assert first == hmac.new(KEY, b"0  a", hashlib.sha256).hexdigest()
    assert second == hmac.new(KEY, f"1 {first} b".encode(), hashlib.sha256).hexdigest()
    assert len(first) == noise_content.DIGITS


def test_a_tag_identifies_the_whole_history():
    histories = [h for n in (1, 2, 3) for h in itertools.product("ab", repeat=n)]
    last_tags = {tags_of(*history)[-1] for history in histories}
    assert len(last_tags) == len(histories)
    assert noise_content.next_tag(KEY[::-1], [], b"a") != tags_of("a")[0]


def test_the_key_of_tags_is_not_the_key_of_noise():
    assert len({KEY, noise_key.tag_key(KEY), noise_key.tag_key(KEY[::-1])}) == 3


@pytest.mark.parametrize("name", MECHANISMS)
def test_other_data_has_independent_noise_from_its_round_on(name):
    """Also in later rounds with the same data, as correlated noise contains earlier draws."""
    mechanism, size = MECHANISMS[name], 20_000

    def noise_of(tags):
        noise = mechanism.keyed_noise(KEY)(size)
        return np.array([noise(t, tags) for t in range(len(tags))])

    ours, theirs = noise_of(tags_of("a", "b", "d", "d")), noise_of(tags_of("a", "c", "d", "d"))
    np.testing.assert_array_equal(ours[0], theirs[0])
    fresh = noise_of(tags_of("x", "b", "d", "d"))
    for t in (1, 2, 3):
        # The draws of round 0 are in both; what is new in round t is not.
        new = [each[t] - correlated_part(each[0], each[t]) for each in (ours, theirs)]
        assert abs(np.corrcoef(*new)[0, 1]) < 0.03
        assert abs(np.corrcoef(ours[t], fresh[t])[0, 1]) < 0.03


def correlated_part(first, later):
    """Returns the part of the noise `later` that a linear regression explains by `first`."""
    return first * (first @ later) / (first @ first)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_stream_that_goes_back_or_branches_equals_a_new_one(name):
    mechanism = MECHANISMS[name]
    noise = mechanism.keyed_noise(KEY)(3)
    histories = ["abcd", "abcd", "ab", "abx", "abcde", "x", "xb", "abcd"]
    for history in histories:
        tags = tags_of(*history)
        expected = mechanism.keyed_noise(KEY)(3)(len(history) - 1, tags)
        np.testing.assert_array_equal(noise(len(history) - 1, tags), expected)
    untagged = mechanism.keyed_noise(KEY)(3)
    assert not np.allclose(untagged(0), noise(0, tags_of("a")))
    if name != "discrete":  # the labels of runs of version 0.2.0
        np.testing.assert_array_equal(
            Gaussian().keyed_noise(KEY)(3)(7), keyed_draw(KEY)("round 7", 3)
        )


def test_missing_tags_are_refused():
    with pytest.raises(ValueError, match="`tags` must have 3 tags, got 2"):
        Gaussian().keyed_noise(KEY)(3)(2, tags_of("a", "b"))


DATA = {
    "array": [np.arange(3, dtype=np.float32)],
    "other dtype": [np.arange(3, dtype=np.float64)],
    "other shape": [np.arange(3, dtype=np.float32).reshape(3, 1)],
    "other number": [np.array([0, 1, 3], np.float32)],
    "other nest": [[np.arange(3, dtype=np.float32)]],
    "two clients": [np.arange(2, dtype=np.float32), np.array([2], np.float32)],
    "empty": [],
    "no numbers": [np.zeros(0, np.float32)],
    "strings": [np.array([b"ab", b"c"], object)],
    "other strings": [np.array([b"a", b"bc"], object)],
    "scalar": [1.0],
    "dataset": [tf.data.Dataset.from_tensor_slices(np.arange(3, dtype=np.float32))],
    "batched dataset": [
        tf.data.Dataset.from_tensor_slices(np.arange(3, dtype=np.float32)).batch(2)
    ],
}


def test_digests_of_different_data_differ():
    digests = {name: digest_of_data(value) for name, value in DATA.items()}
    assert len(set(digests.values())) == len(DATA)
    assert digests == {name: digest_of_data(value) for name, value in DATA.items()}


def test_data_without_a_digest_is_refused():
    with pytest.raises(TypeError, match="must be arrays, got object at"):
        digest_of_data([object()])
