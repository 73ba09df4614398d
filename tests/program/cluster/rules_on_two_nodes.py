"""Every rule, mechanism and method on two nodes; `test_two_nodes.py` runs this in a namespace.

Packs of arrays travel here, which they do not in a training: the computations are what is compared.
"""

import typing

import pytest
import tensorflow_federated as tff

from tests.federated.learning.test_client_delivery import (
    GAUSSIAN,
    RULES,
    assert_same,
    cohort,
    config_of,
    process_of,
)
from tff_keyboard.config.sections import privacy_config, rule_config
from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.federated.learning import client_delivery
from tff_keyboard.program.cluster.node import NodeOptions
from tff_keyboard.program.cluster.ray_engine import RayEngine
from tff_keyboard.program.engines import execution

MORE = {
    "bounded_trimmed_mean": ("aggregation.rule.name=bounded_trimmed_mean",),
    "discrete": (*GAUSSIAN, "aggregation.privacy.distribution=discrete"),
    "tree_adaptive": (
        *GAUSSIAN,
        "aggregation.privacy.mechanism=tree_adaptive",
        "aggregation.privacy.clipped_count_noise=0.5",
    ),
    "blt": (*GAUSSIAN, "aggregation.privacy.mechanism=blt"),
    "banded": (*GAUSSIAN, "aggregation.privacy.mechanism=banded"),
}
ALL = {**RULES, **MORE}

pytestmark = pytest.mark.slow


def test_nothing_is_forgotten():
    configs = [config_of(*overrides) for overrides in ALL.values()]
    assert {config.aggregation.rule.name for config in configs} == set(rule_config.RULES)
    tested = {type(config.aggregation.privacy) for config in configs}
    assert tested == set(typing.get_args(privacy_config.Privacy))


@pytest.fixture(scope="module")
def contexts(cluster):
    engine = RayEngine(ClusterConfig(min_nodes=2, wait_seconds=600.0), NodeOptions(), {})
    with (
        execution.install_context(num_subrounds=2, engine=engine) as on_nodes,
        execution.install_context(1, num_subrounds=2) as here,
    ):
        yield on_nodes.context, here.context


@pytest.mark.parametrize("rule", ALL)
def test_has_the_same_bits(contexts, rule):
    config = config_of(*ALL[rule])
    results = []
    for context, thin in zip(contexts, (True, False), strict=True):
        tff.framework.set_default_context(context)
        delivery = client_delivery.build_delivery(
            process_of(config, joined=True), config, thin=thin
        )
        state, outputs = delivery.process.initialize(), []
        for round_num in (1, 2):
            clients = cohort(round_num)
            sizes = [sum(batch.size for batch in client) for client in clients]
            outputs.append(delivery.process.next(state, delivery.deliver(clients, sizes)))
            state = outputs[-1].state
        results.append(outputs)
    assert_same(*results)
