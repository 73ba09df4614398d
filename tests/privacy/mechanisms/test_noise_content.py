"""Noise that depends on the data that it hides: tags, their chain, and digests of data."""

import hashlib
import hmac
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tree

from tff_keyboard.aggregators.private.private_mean import PrivateMeanFactory
from tff_keyboard.algorithms.rounds.noised import digest_of_data, with_noise
from tff_keyboard.privacy.mechanisms import noise_content, noise_key
from tff_keyboard.privacy.mechanisms.noise_streams import keyed_draw
from tff_keyboard.privacy.registry.blt import BltMechanism
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptive
from tff_keyboard.privacy.registry.tree import Tree

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


def test_a_dataset_that_changes_is_refused():
    numbers = np.arange(50, dtype=np.float32)
    shuffled = tf.data.Dataset.from_tensor_slices(numbers).shuffle(50)
    with pytest.raises(ValueError, match="other elements each time it is read"):
        digest_of_data([[shuffled]])
    fixed = tf.data.Dataset.from_tensor_slices(numbers).shuffle(
        50, seed=1, reshuffle_each_iteration=False
    )
    assert digest_of_data([[fixed]]) == digest_of_data([[fixed]])


SUM = {"clients_per_round": 1, "clip_norm": 1e6, "noise_multiplier": 1e-6}


def released(value, state=None, *, key=KEY, mechanism="gaussian", **changes):
    """Returns the noise of a released sum of one client, in units of one draw."""
    options = SUM | changes
    mean = PrivateMeanFactory(mechanism=mechanism, **options)
    process = with_noise(mean.create(tff.TensorType(np.float32, [2_000])), mean, rounds=3, key=key)
    state = process.initialize() if state is None else state
    clients = [np.full(2_000, value, np.float32)]
    output = process.next(state, clients)
    size = options["noise_multiplier"] * options["clip_norm"]
    return output, (np.asarray(output.result, np.float64) - value) / size


def test_one_key_never_gives_two_sums_the_same_noise():
    """Otherwise 2 A - B of two releases with multipliers 1 and 2 would be the exact sum."""
    first, noise = released(0.0)
    np.testing.assert_array_equal(released(0.0)[1], noise)
    others = {
        "data": released(0.25)[1],
        "multiplier": released(0.0, noise_multiplier=2e-6)[1],
        "clip norm": released(0.0, clip_norm=2e6)[1],
        "mechanism": released(0.0, mechanism="blt")[1],
        "discrete": released(0.0, distribution="discrete")[1],
        "key": released(0.0, key=KEY[::-1])[1],
        "state": released(0.0, first.state)[1],
    }
    for name, other in others.items():
        assert abs(np.corrcoef(noise, other)[0, 1]) < 0.1, name
        assert np.std(other) == pytest.approx(1.0, rel=0.1), name


@pytest.mark.slow
def test_another_state_before_the_round_has_other_noise():
    first, _ = released(0.0)
    second, noise = released(0.5, first.state)
    np.testing.assert_array_equal(released(0.5, first.state)[1], noise)
    edited = tree.map_structure(
        lambda x: x * 2 if np.asarray(x).dtype == np.float32 else x, first.state
    )
    assert abs(np.corrcoef(released(0.5, edited)[1], noise)[0, 1]) < 0.1
    del second
