"""A lying server learns no sum of fewer honest devices than `min_honest_in_sum` says; and no more
can be promised."""

import collections

import numpy as np
import pytest

from tff_keyboard_fleet.tests.wire.secure_sums import lying_server
from tff_keyboard_fleet.tests.wire.secure_sums.lying_server import LIES, Trusting, World
from tff_keyboard_fleet.wire.secure_sums import device as sum_devices
from tff_keyboard_fleet.wire.secure_sums.device import Device
from tff_keyboard_fleet.wire.secure_sums.messages import Settings
from tff_keyboard_fleet.wire.secure_sums.neighbours import min_honest_in_sum


def settings_of(degree, threshold, size=4):
    return Settings(label=b"run/1/1", size=size, bits=32, degree=degree, threshold=threshold)


def recovered(world, learned):
    """Returns the devices whose vectors the server has exactly."""
    actual = {x: learned.vector(x) for x in learned.masked}
    truth = world.vectors.astype(np.int64).astype("<u4")
    return {x for x, vector in actual.items() if np.array_equal(vector, truth[x])}


@pytest.mark.parametrize(
    ("degree", "threshold", "count"),
    [(8, 5, 40), pytest.param(56, 29, 130, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("make", [Trusting, Device])
def test_server_alone_only_unmasks_a_device_that_trusts_it(make, degree, threshold, count):
    """The attack `drop_claims`, without colluding devices, on devices with and without step 4."""
    world = World(settings_of(degree, threshold), count, make=make)
    learned = world.play(lying_server.drop_claims(world, np.random.default_rng(0)))
    assert len(recovered(world, learned)) == (make is Trusting)
    assert (1 in map(len, learned.sums())) == (make is Trusting)


def test_the_server_learns_the_sum_and_nothing_else_if_it_tells_the_truth():
    world = World(settings_of(8, 5), 20)
    lies = lying_server.truth(world, np.random.default_rng(0))
    lies.silent = {"report": {0, 1, 2}, "unmask": {3}}
    lies.reported = {x: others - {0, 1, 2} for x, others in lies.reported.items()}
    learned = world.play(lies)
    assert learned.sums() == [set(range(3, 20))]
    assert not recovered(world, learned)


@pytest.mark.parametrize("colluding", [0, 1, 2, 3])
def test_the_bound_is_tight(colluding):
    """With degree 8 and threshold 6, up to three colluding devices gain nothing more than smaller
    sums; a fourth unmasks a device."""
    world = World(settings_of(8, 6), 40, colluding)
    learned = world.play(lying_server.two_groups(world, np.random.default_rng(0)))
    assert min(map(len, learned.sums())) == min_honest_in_sum(8, 6, colluding) == 7 - colluding
    assert not recovered(world, learned)


def test_one_colluding_device_more_unmasks_a_device():
    world = World(settings_of(8, 6), 40, 4)
    learned = world.play(lying_server.two_groups(world, np.random.default_rng(0)))
    assert min(map(len, learned.sums())) == min_honest_in_sum(8, 6, 4) == 1
    assert len(recovered(world, learned)) == 1


@pytest.mark.parametrize("colluding", [0, 1])
@pytest.mark.parametrize("is_checked", [False, True])
def test_without_signatures_of_uploads_sums_would_be_smaller(is_checked, colluding, monkeypatch):
    if not is_checked:
        monkeypatch.setattr(sum_devices, "is_included", lambda *signed: True)
    world = World(settings_of(8, 5), 60, colluding)
    learned = world.play(lying_server.few_ties(world, np.random.default_rng(0)))
    actual = sorted(map(len, learned.sums()))
    least = min_honest_in_sum(8, 5, colluding)
    assert actual[0] == (least if is_checked else 3 - colluding)


@pytest.mark.parametrize("has_list", [False, True])
def test_invented_devices_unmask_a_device_without_known_devices(has_list):
    world = World(
        settings_of(8, 6), 10, 8, is_known=lambda real: lambda name: not has_list or name in real
    )
    invented = list(world.colluding)
    lies = lying_server.Lies({0: invented}, {0: set(invented)}, {0: set(invented)})
    learned = world.play(lies)
    assert recovered(world, learned) == (set() if has_list else {0})


def masks_that_are_left(world, learned):
    """Returns the masks the server lacks, by masked vector: [devices, masks] of -1, 0, 1."""
    places = collections.defaultdict(lambda: len(places))
    secret = {x for x in world.honest if not learned.is_opened(x, False)}
    entries = []
    for row, each in enumerate(learned.masked):
        if not learned.is_opened(each, True):
            entries.append((row, places[each], 1))
        for other in learned.pairs[each] & secret if each in secret else ():
            sign = 1 if world.devices[each].name < world.devices[other].name else -1
            entries.append((row, places[frozenset((each, other))], sign))
    actual = np.zeros([len(learned.masked), max(len(places), 1)])
    for row, column, sign in entries:
        actual[row, column] = sign
    return actual


@pytest.mark.parametrize("lie", LIES)
def test_no_other_combination_of_vectors_is_free_of_masks(lie, monkeypatch):
    """By linear algebra, without the argument of the proof: what the server can combine, with any
    weights, are the sums of disjoint groups. So no two sums differ by one device."""
    lying_server.on_paper(monkeypatch)
    count = 0
    for seed in range(8):
        restarted = 8 * (lie is lying_server.restarts)
        world = World(settings_of(8, 6, size=1), 32 + restarted, 2, restarted=restarted)
        learned = world.play(lie(world, np.random.default_rng(seed)))
        left, rows = masks_that_are_left(world, learned), list(learned.masked)
        sums = learned.sums()
        for group in sums:
            assert len(group) >= min_honest_in_sum(8, 6, 2) == 5
            assert not left[[rows.index(x) for x in group]].sum(0).any()
        assert np.linalg.matrix_rank(left) == len(rows) - len(sums)
        count += len(sums)
    assert count or lie in (lying_server.drop_claims, lying_server.few_ties)


def search(runs, seed, patch, *, degrees, counts, make=Device):
    """Returns the smallest sums that servers of many kinds learned, by kind."""
    lying_server.on_paper(patch)
    rng = np.random.default_rng(seed)
    smallest = collections.defaultdict(list)
    for run in range(runs):
        degree = 2 * int(rng.integers(degrees[0] // 2, degrees[1] // 2 + 1))
        threshold = int(rng.integers(degree // 2 + 1, degree * 3 // 4 + 1))
        colluding = int(rng.integers(0, 2 * threshold - degree))
        honest = int(rng.integers(max(counts[0], degree + 2), counts[1] + 1))
        lie = LIES[run % len(LIES)]
        restarted = honest // 3 if lie is lying_server.restarts else 0
        world = World(
            settings_of(degree, threshold, size=1),
            honest + restarted,
            colluding,
            restarted=restarted,
            make=make,
        )
        learned = world.play(lie(world, rng))
        least = min_honest_in_sum(degree, threshold, colluding)
        smallest[lie.__name__] += [len(group) - least for group in learned.sums()]
    return smallest


def check(smallest):
    """Checks that no server learned more than the bound, and that some learned exactly that."""
    actual = [size for sizes in smallest.values() for size in sizes]
    assert min(actual) == 0
    assert min(smallest["two_groups"]) == min(smallest["many_groups"]) == 0


def test_no_lying_server_learns_a_sum_of_fewer(monkeypatch):
    smallest = search(60, 1, monkeypatch, degrees=(8, 16), counts=(20, 60))
    check(smallest)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_none_of_a_thousand_lying_servers_learns_a_sum_of_fewer(seed, monkeypatch):
    smallest = search(100, seed, monkeypatch, degrees=(8, 64), counts=(20, 400))
    print({kind: (len(found), min(found, default=None)) for kind, found in smallest.items()})
    check(smallest)


def test_search_finds_servers_that_unmask_trusting_devices(monkeypatch):
    smallest = search(60, 1, monkeypatch, degrees=(8, 16), counts=(40, 60), make=Trusting)
    assert min(smallest["drop_claims"]) < 0


@pytest.mark.parametrize("kind", [True, False])
def test_model_of_the_cryptography_rejects_the_same_messages(kind, monkeypatch):
    """The same lies of each kind give the same refusals and the same sums."""
    actual = []
    for is_real in (True, False):
        with monkeypatch.context() as patch:
            if not is_real:
                lying_server.on_paper(patch)
            for lie in LIES:
                rng = np.random.default_rng(3 + kind)
                restarted = 8 * (lie is lying_server.restarts)
                world = World(settings_of(8, 6), 24 + restarted, 2, restarted=restarted)
                learned = world.play(lie(world, rng))
                actual.append((world.refused, sorted(map(len, learned.sums()))))
    assert actual[: len(LIES)] == actual[len(LIES) :]
