"""Every rule, mechanism and method on two nodes; `test_two_nodes.py` runs this in a namespace.

Packs of arrays travel here, which they do not in a training: the computations are what is compared.
"""

import pytest
import tensorflow_federated as tff

from tests.learning.test_client_delivery import RULES, assert_same, cohort, config_of, process_of
from tff_keyboard.config.execution_config import ClusterConfig
from tff_keyboard.learning import client_delivery
from tff_keyboard.program import execution
from tff_keyboard.program.cluster.node import NodeOptions
from tff_keyboard.program.cluster.ray_engine import RayEngine


@pytest.fixture(scope="module")
def contexts(cluster):
    engine = RayEngine(ClusterConfig(min_nodes=2, wait_seconds=600.0), NodeOptions(), {})
    with (
        execution.install_context(num_subrounds=2, engine=engine) as on_nodes,
        execution.install_context(1, num_subrounds=2) as here,
    ):
        yield on_nodes.context, here.context


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_has_the_same_bits(contexts, rule):
    config = config_of(*RULES[rule])
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
