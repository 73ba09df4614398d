"""Rounds on two nodes against rounds here; `test_two_nodes.py` runs this in a namespace."""

import functools
import itertools
import os
import signal

import numpy as np
import pytest
import tensorflow_federated as tff
import tree

from tests.support import fakes
from tests.support.cluster.cluster_fakes import Cohort, named
from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.program.cluster.node import NodeOptions
from tff_keyboard.program.cluster.ray_engine import RayEngine
from tff_keyboard.program.engines import execution

PARTS = 5

pytestmark = pytest.mark.slow  # the quick training of `trainings_on_two_nodes.py` has rounds, too

PATIENT = ClusterConfig(min_nodes=2, wait_seconds=600.0)


@pytest.fixture(scope="module")
def ray(cluster):
    """The context whose parts are computed on the nodes."""
    engine = RayEngine(PATIENT, NodeOptions(), {})
    with execution.install_context(num_subrounds=PARTS, engine=engine) as installed:
        yield installed


@pytest.fixture(scope="module")
def local(ray):
    with execution.install_context(1, num_subrounds=PARTS) as installed:
        yield installed


@pytest.fixture
def both(ray, local):
    """Calls a function under each of the two, and returns what it gave."""

    def call(function):
        results = []
        for installed in (ray, local):
            tff.framework.set_default_context(installed.context)
            results.append(function())
        return results

    return call


@pytest.fixture(scope="module")
def process():
    return fakes.tiny_process()


def train(process, rounds=3, before_round=lambda round_num: None):
    state, outputs = process.initialize(), []
    for round_num in range(1, rounds + 1):
        before_round(round_num)
        outputs.append(process.next(state, Cohort(round_num)))
        state = outputs[-1].state
    return outputs


def test_sums_are_grouped_by_parts(both):
    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def total(values):
        return tff.federated_sum(values)

    values = (np.random.default_rng(3).normal(size=9) * 10.0 ** np.arange(9)).astype(np.float32)
    cuts = [round(i * 9 / PARTS) for i in range(PARTS + 1)]
    parts = [functools.reduce(np.add, values[a:b]) for a, b in itertools.pairwise(cuts)]
    expected = functools.reduce(np.add, parts)
    assert both(lambda: total(list(values))) == [expected, expected]
    assert both(lambda: total([])) == [0.0, 0.0]


def test_rounds_have_the_same_bits_and_containers_whatever_dies(ray, local, both, process):
    own = {context.pool.members[0].pid for context in (ray, local)}

    def before_round(round_num):
        if round_num == 2:
            os.kill(min(set(named("worker_binary")) - own), signal.SIGKILL)
        if round_num == 3:
            os.kill(min(named("ray::NodeServer")), signal.SIGKILL)

    tff.framework.set_default_context(ray.context)
    on_nodes = train(process, 4, before_round)
    tff.framework.set_default_context(local.context)
    here = train(process, 4)
    assert fakes.digest(on_nodes) == fakes.digest(here)
    tree.assert_same_structure(on_nodes, here)
    assert any("lost" in event for _, event in ray.engine.pop_events())
