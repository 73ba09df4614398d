"""What is saved is loaded to the bit; what is damaged is never loaded."""

import asyncio
import collections
import os
import warnings
from typing import NamedTuple

import attrs
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tree
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support import strange_files
from tests.support.examples import examples
from tff_keyboard.storage import in_progress
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.training.loop import checkpoints, errors


class Pair(NamedTuple):
    first: object
    second: object


@attrs.define
class Weights:
    trainable: object
    non_trainable: object


def state(seed=0, size=3):
    generator = np.random.default_rng(seed)
    return Pair(
        Weights([generator.normal(size=(size, 2)).astype(np.float32)], ()),
        collections.OrderedDict(
            z=np.int32(seed), a=tf.constant([seed, 1]), flag=np.bool_(True), empty=np.zeros((0, 2))
        ),
    )


def save(manager, value, version):
    asyncio.run(manager.save(value, version))


def load_latest(manager, template, **options):
    return asyncio.run(manager.load_latest(template, **options))


def assert_same(actual, expected):
    tree.assert_same_structure(actual, expected)
    for a, b in zip(tree.flatten(actual), tree.flatten(expected), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def manager(tmp_path):
    return checkpoints.CheckpointManager(tmp_path / "checkpoints", keep_last=3)


def test_is_a_program_state_manager(manager):
    assert isinstance(manager, tff.program.ProgramStateManager)


def test_round_trip(manager):
    save(manager, state(5), 1)
    loaded, version = load_latest(manager, state(0))
    assert version == 1
    assert_same(loaded, state(5))
    assert list(loaded.second) == ["z", "a", "flag", "empty"]
    loaded.first.trainable[0][0] = 1.0  # the arrays are the caller's to change


@examples(50)
@given(
    st.lists(
        hnp.arrays(
            st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_, ">f4"]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=4,
    )
)
def test_round_trip_of_any_arrays(tmp_path_factory, arrays):
    manager = checkpoints.CheckpointManager(tmp_path_factory.mktemp("checkpoints"))
    save(manager, arrays, 7)
    loaded, _ = load_latest(manager, arrays)
    for actual, expected in zip(loaded, arrays, strict=True):
        assert np.asarray(actual).shape == expected.shape
        little_endian = expected.astype(expected.dtype.newbyteorder("<"))
        assert np.asarray(actual).tobytes() == little_endian.tobytes()  # NaNs too


def test_nothing_saved(manager):
    assert load_latest(manager, state()) == (None, 0)
    assert asyncio.run(manager.get_versions()) is None
    with pytest.raises(tff.program.ProgramStateNotFoundError):
        asyncio.run(manager.load(3, state()))


def test_a_version_is_written_once(manager):
    save(manager, state(), 1)
    with pytest.raises(tff.program.ProgramStateExistsError):
        save(manager, state(), 1)


def test_keeps_the_last_and_the_pinned(manager):
    manager.pin(2)
    for version in range(1, 8):
        save(manager, state(version), version)
    assert asyncio.run(manager.get_versions()) == [2, 5, 6, 7]
    manager.pin(6)
    save(manager, state(), 8)
    assert asyncio.run(manager.get_versions()) == [6, 7, 8]


def damage_truncate(path):
    os.truncate(path, path.stat().st_size - 5)


def damage_bit(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def damage_header(path):
    path.write_bytes(path.read_bytes().replace(b'"version": 3', b'"version": 4'))


def damage_empty(path):
    path.write_bytes(b"")


def damage_swap(path):
    path.write_bytes(path.with_name("round_00000002.checkpoint").read_bytes())


DAMAGES = [damage_truncate, damage_bit, damage_header, damage_empty, damage_swap]


@pytest.mark.parametrize("damage", DAMAGES)
def test_falls_back_from_a_damaged_checkpoint(manager, damage):
    for version in (1, 2, 3):
        save(manager, state(version), version)
    damage(manager.path(3))
    with pytest.warns(UserWarning, match=r"round_00000003\.checkpoint is damaged") as caught:
        loaded, version = load_latest(manager, state())
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert version == 2
    assert_same(loaded, state(2))
    save(manager, state(33), 3)  # computed again: takes the place of the damaged one
    assert_same(load_latest(manager, state())[0], state(33))


def test_a_damaged_checkpoint_does_not_push_out_sound_ones(tmp_path):
    manager = checkpoints.CheckpointManager(tmp_path, keep_last=1)
    save(manager, state(1), 1)
    manager.path(9).write_bytes(b"?")
    with pytest.warns(UserWarning, match="damaged"):
        assert load_latest(manager, state())[1] == 1
    save(manager, state(2), 2)
    assert asyncio.run(manager.get_versions()) == [2, 9]


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    """Its rounds would have the noise of this run with other sums."""
    save(checkpoints.CheckpointManager(tmp_path, run_id="a" * 32), state(1), 1)
    assert load_latest(checkpoints.CheckpointManager(tmp_path, run_id="a" * 32), state())[1] == 1
    assert load_latest(checkpoints.CheckpointManager(tmp_path), state())[1] == 1
    other = checkpoints.CheckpointManager(tmp_path, run_id="b" * 32)
    with pytest.raises(RunDirectoryError, match=r"round_00000001\.checkpoint is .* another run"):
        load_latest(other, state())
    save(checkpoints.CheckpointManager(tmp_path / "old"), state(2), 2)  # of an earlier version
    old = checkpoints.CheckpointManager(tmp_path / "old", run_id="b" * 32)
    assert load_latest(old, state())[1] == 2


def test_all_damaged_is_an_error(manager):
    save(manager, state(), 1)
    damage_bit(manager.path(1))
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(errors.ProgramError, match="None of the 1"),
    ):
        load_latest(manager, state())
    assert manager.path(1).exists()


@pytest.mark.parametrize(
    "template, problem",
    [
        (state(0, size=4), r"`first/trainable/0` is <f4\[3, 2\], expected <f4\[4, 2\]"),
        (state()._replace(second={"z": np.int64(0)}), r"`second/z` is <i4\[\], expected <i8\[\]"),
        ({"other": np.zeros(3)}, "`other` is not there"),
    ],
    ids=["shape", "dtype", "names"],
)
def test_checkpoint_of_another_structure_is_an_error(manager, template, problem):
    save(manager, state(), 1)
    with pytest.raises(errors.ProgramError, match=problem) as caught:
        load_latest(manager, template)
    assert not isinstance(caught.value, checkpoints.DamagedCheckpointError)


def test_full_disk_keeps_earlier_checkpoints(manager, monkeypatch):
    save(manager, state(1), 1)

    def fsync(_):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(errors.ProgramError, match="No space left on device"):
            save(manager, state(2), 2)
    loaded, version = load_latest(manager, state())
    assert version == 1
    assert_same(loaded, state(1))


def test_cleans_up_after_a_kill(tmp_path):
    in_progress.new_name(tmp_path / "round_00000004.checkpoint").write_bytes(b"half")
    manager = checkpoints.CheckpointManager(tmp_path)
    assert not list(tmp_path.iterdir())
    assert load_latest(manager, state()) == (None, 0)


@pytest.mark.parametrize("kind", strange_files.KINDS)
def test_a_pipe_or_device_is_not_read_as_a_checkpoint(manager, kind):
    save(manager, state(1), 1)
    strange_files.put_strange_file(manager.path(1), kind)
    with strange_files.limited(), pytest.raises(errors.RunDirectoryError, match="Cannot read"):
        load_latest(manager, state())


def test_a_checkpoint_that_is_far_too_large_is_not_read(manager):
    with manager.path(1).open("wb") as file:
        file.truncate(2**31)
    with strange_files.limited(), pytest.raises(errors.RunDirectoryError, match=r"more than 1,07"):
        load_latest(manager, state())


def test_checkpoints_after_lost_metrics_are_skipped_and_replaceable(manager):
    for version in (2, 4, 6):
        save(manager, state(version), version)
    with pytest.warns(UserWarning, match="has round 6, but the metrics of round 5 are missing"):
        loaded, version = load_latest(manager, state(), up_to=4)
    assert version == 4
    assert_same(loaded, state(4))
    save(manager, state(6), 6)
    with pytest.warns(UserWarning, match="metrics of round 2"):
        assert load_latest(manager, state(), up_to=1) == (None, 0)


def test_rejects_leaves_that_are_no_arrays(manager):
    with pytest.raises(errors.ProgramError, match="`name` has dtype"):
        save(manager, {"name": "text"}, 1)
    with pytest.raises(ValueError, match="`keep_last`"):
        checkpoints.CheckpointManager("unused", keep_last=0)


def test_no_warning_on_a_normal_load(manager):
    save(manager, state(), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_latest(manager, state())


def test_bytes_of_changing_length_come_back(tmp_path):
    """The privacy event in a DP aggregator's state names a class, another one after a round."""
    manager = checkpoints.CheckpointManager(tmp_path)
    template = {"event": b"UnsupportedDpEvent", "keys": np.array([], object), "z": np.float32(1)}
    state = {"event": b"GaussianDpEvent", "keys": np.array([b"a", b"bcd"], object), "z": 2.0}
    state["z"] = np.float32(2)
    asyncio.run(manager.save(state, 3))
    restored, version = load_latest(manager, template)
    assert version == 3
    assert restored["event"] == b"GaussianDpEvent"
    assert restored["keys"].tolist() == [b"a", b"bcd"]
    assert restored["z"] == 2
