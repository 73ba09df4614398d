import argparse

import numpy as np
import pytest

from benchmarks import cluster_scale
from benchmarks.cluster_scale import Size


def test_the_plane_through_the_sizes():
    sizes = [Size(1_000, 48), Size(10_000, 48), Size(10_000, 192), Size(300, 6)]
    costs = cluster_scale.plane(sizes, [3 + 0.002 * s.clients + 0.5 * s.parts for s in sizes])
    np.testing.assert_allclose(list(costs.values()), [3, 0.002, 0.5], rtol=1e-6)


@pytest.mark.parametrize("text", ["1000", "0:4", "4:0", "a:1", "1:2:3", "-1:4"])
def test_refuses_what_is_no_size(text):
    with pytest.raises(argparse.ArgumentTypeError, match="CLIENTS:PARTS"):
        Size.of(text)


def test_more_nodes_help_until_the_driver_is_full():
    driver, node = {"round": 1.0, "client": 1e-4, "part": 1e-3}, {"client": 0.02, "part": 0.5}
    flags = argparse.Namespace(parts_per_node=4, cores=16)
    one, ten, hundred = cluster_scale.capacity(driver, node, 10_000, flags)
    assert one["nodes_seconds"] == pytest.approx((200 + 4 * 0.5) / 16)
    assert one["driver_seconds"] == pytest.approx(1 + 1 + 0.004)
    assert one["people_a_second"] == pytest.approx(10_000 / one["nodes_seconds"])
    assert ten["people_a_second"] == pytest.approx(10_000 / 2.04)  # the driver is slower now
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
