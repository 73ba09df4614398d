"""A run directory that is restored from a backup, and goes on with other devices."""

import math
import shutil

import numpy as np
import pytest

from tests.support.fakes import tiny_config
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.privacy.registry.tree import Tree
from tff_keyboard_fleet.on_devices.serve import serve_federated
from tff_keyboard_fleet.tests.on_devices.test_serve import PLAIN, Fleet, Reversed
from tff_keyboard_fleet.tests.on_devices.test_serve_secure_sums import SecureFleet

CLIP_NORM, MULTIPLIER = 0.3, 5.0
PRIVATE = (
    *PLAIN,
    "aggregation.client_weighting=uniform",
    f"aggregation.privacy.noise_multiplier={MULTIPLIER}",
    f"aggregation.privacy.clip_norm={CLIP_NORM}",
    "server={type='fedavgm', learning_rate=1.0, momentum=0.0}",
    "train.clients_per_round=3",
    "train.over_selection=1.0",
    "train.min_separation_rounds=1",
    "train.final_model=last",
)
SECURE = (
    "devices.secure_sums=true",
    "devices.secure_neighbours=2",
    "devices.min_report_fraction=1.0",
)
MECHANISMS = {
    "gaussian": ("aggregation.privacy.type=gaussian",),
    "discrete": ("aggregation.privacy={type='gaussian', distribution='discrete'}",),
    "secure discrete": ("aggregation.privacy={type='gaussian', distribution='discrete'}", *SECURE),
    "adaptive": ("aggregation.privacy={type='gaussian_adaptive', clipped_count_noise=10}",),
    "tree": ("aggregation.privacy.type=tree",),
    "blt": ("aggregation.privacy={type='blt', buffers=1}",),
    "secure tree": ("aggregation.privacy.type=tree", *SECURE),
    "secure blt": ("aggregation.privacy={type='blt', buffers=1}", *SECURE),
}


def serve(store, run, changes, people, fleet_class):
    """Serves rounds up to the last one of `people`: round -> [(device, its delta), ...]."""
    config = tiny_config(store, *changes, *PRIVATE, f"train.rounds={max(people)}")
    fleet = fleet_class(people, config, len(ClientStore(store).vocabulary))
    fleet._train = lambda initial, sign, rate: (np.full(initial.shape, sign, np.float32), 1.0, 1.0)
    serve_federated(config, run, serve=fleet, graph=Reversed())
    with np.load(run / "model" / "weights.npz") as arrays:
        return np.concatenate([array.reshape(-1) for array in arrays.values()]).astype(np.float64)


def stddev_of_second_round(mechanism):
    """Returns the standard deviation of the draws that the second round adds, for one draw."""
    if isinstance(mechanism, Tree):  # Honaker's weights of the two new nodes: 2/3 and 1/3
        return math.sqrt(4 / 9 + 1 / 9)
    return 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_other_uploads_have_independent_noise(name, store, tmp_path):
    changes = MECHANISMS[name]
    is_secure = name.startswith("secure")
    kind = SecureFleet if is_secure else Fleet
    run, backup, repeated = (tmp_path / name for name in ("run", "backup", "repeated"))
    serve(store, run, changes, {1: [(number, 1.0) for number in (0, 1, 2)]}, kind)
    for copy in (backup, repeated):
        shutil.copytree(run, copy)
    ours = {2: [(number, 1.0) for number in (3, 4, 5)]}
    theirs = {2: [(number, -1.0) for number in (6, 7, 8)]}
    model = serve(store, run, changes, ours, kind)
    other = serve(store, backup, changes, theirs, kind)
    header, rounds = read_ledger(run / "privacy_ledger.jsonl")
    # All updates are longer than the clip norm, and each coordinate is the same.
    clip_norm = rounds[1]["clip_norm"]
    sums_difference = 2 * 3 * clip_norm / math.sqrt(len(model))
    noise_difference = 3 * (model - other) - sums_difference
    expected = math.sqrt(2) * rounds[1]["noise_stddev"] * stddev_of_second_round(header.mechanism)
    # On 2,000 coordinates; the noise that both share would have cancelled.
    assert np.std(noise_difference) == pytest.approx(expected, rel=0.1)
    assert abs(np.mean(noise_difference)) < 5 * expected / math.sqrt(len(model))
    _, other_rounds = read_ledger(backup / "privacy_ledger.jsonl")
    assert rounds[0] == other_rounds[0]
    assert rounds[1]["content"] != other_rounds[1]["content"]
    # The same uploads again have the same noise: a kill repeats a round, and releases nothing new.
    again = serve(store, repeated, changes, ours, kind)
    if is_secure:  # masks differ, and the sum is the same
        assert read_ledger(repeated / "privacy_ledger.jsonl")[1] == rounds
    np.testing.assert_array_equal(again, model)
