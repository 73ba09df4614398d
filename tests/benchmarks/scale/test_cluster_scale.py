import argparse

import numpy as np
import pytest

from benchmarks.scale import cluster_scale
from benchmarks.scale.cluster_scale import Size


def test_costs_are_found_again_and_none_is_negative():
    sizes = [Size(1_000, 48), Size(10_000, 48), Size(10_000, 192), Size(300, 6), Size(300, 12)]
    walls = [7.0, 100.0, 50.0, 1.0, 30.0]
    own = [
        3 + 0.002 * size.clients + 0.5 * size.parts + 0.01 * wall
        for size, wall in zip(sizes, walls, strict=True)
    ]
    costs = cluster_scale.costs_of(sizes, walls, own)
    np.testing.assert_allclose(list(costs.values()), [3, 0.002, 0.5, 0.01], rtol=1e-6)
    noisy = cluster_scale.costs_of(sizes, [0.0] * 5, [4.0, 44.0, 20.0, 1.0, 2.0])
    assert min(noisy.values()) == 0 < noisy["client"]


@pytest.mark.parametrize("text", ["1000", "0:4", "4:0", "a:1", "1:2:3", "-1:4"])
def test_refuses_what_is_no_size(text):
    with pytest.raises(argparse.ArgumentTypeError, match="CLIENTS:PARTS"):
        Size.of(text)


def test_more_nodes_help_until_the_driver_is_full():
    driver = {"round": 1.0, "client": 1e-4, "part": 1e-3, "second": 0.01}
    node = {"round": 0.0, "client": 0.02, "part": 0.5}
    flags = argparse.Namespace(parts_per_node=4, cores=16)
    one, ten, hundred = cluster_scale.capacity(driver, node, 10_000, flags)
    assert one["nodes_seconds"] == pytest.approx((200 + 4 * 0.5) / 16)
    assert one["driver_seconds"] == pytest.approx(1 + 1 + 0.004 + 0.01 * one["nodes_seconds"])
    assert one["people_a_second"] == pytest.approx(10_000 / one["nodes_seconds"])
    assert ten["driver_seconds"] > ten["nodes_seconds"]
    assert ten["people_a_second"] == pytest.approx(10_000 / ten["driver_seconds"])
    assert hundred["people_a_second"] < ten["people_a_second"]  # more parts, which it adds up


class Engine:
    def run(self, job):
        yield from [(0, b"result"), (1, b"result")]

    def place_names(self):
        return ["a node"]

    def close(self):
        raise AssertionError("the engine serves all sizes")


def test_weighs_when_it_is_told_to():
    class Job:
        shared, items = b"shared", [b"one", b"two"]

    weighed = cluster_scale.Weighed(Engine())
    for weighs in (False, True):
        weighed.weighs = weighs
        assert list(weighed.run(Job)) == [(0, b"result"), (1, b"result")]
        assert (weighed.received > 12) == (weighed.sent > 6) == (weighed.named > 6) == weighs
    assert weighed.place_names() == ["a node"]
    weighed.close()
