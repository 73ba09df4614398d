"""What a round costs more on a node of a cluster than on this machine, in one run.

    python -m benchmarks.cluster_overhead --config=configs/demo.toml --store=data/demo --rounds=20

Rounds with the same clients are computed in turn by this machine's worker and by one node of the
cluster that RAY_ADDRESS names, or of one that is started here, so that whatever else the machine
does slows both. Prints the medians, the median of the differences of pairs, CPU seconds of this
process and all below it (which are all of the cluster that is started here, but not of another),
and whether all states are equal.
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import time
from typing import Any

import numpy as np

from benchmarks import process_tree
from tff_keyboard import config as config_lib
from tff_keyboard import quiet
from tff_keyboard.data.store.client_store import ClientStore


def states_digest(state: Any) -> str:
    """Of all arrays of a state."""
    import tree

    digest = hashlib.sha256()
    for leaf in tree.flatten(state):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def measure(config: config_lib.RunConfig, rounds: int) -> dict[str, Any]:
    """Wall and CPU seconds of each round, [rounds, here and on the node]; whether states are equal.

    The first two rounds, which compile, are left out.
    """
    import tensorflow_federated as tff

    from tff_keyboard.algorithms import build_process
    from tff_keyboard.learning import client_delivery, client_inputs
    from tff_keyboard.program import execution
    from tff_keyboard.training import execution_engine

    store = ClientStore(config.data.store)
    parts = config.execution.sub_rounds
    with (
        execution.install_context(1, num_subrounds=parts) as here,
        execution.install_context(
            num_subrounds=parts, engine=execution_engine.build_engine(config, [store])
        ) as cluster,
    ):
        model = build_process.build_initial_model(config, store.vocabulary)
        cohorts = client_inputs.CohortInputs(config, store)
        names = execution_engine.ByName(config, [store])
        ways = []
        for context, thin in ((here.context, False), (cluster.context, True)):
            process = build_process.build_process(config, model, joined=True)
            ways.append((context, client_delivery.build_delivery(process, config, thin=thin)))
        tff.framework.set_default_context(here.context)
        states = [ways[0][1].process.initialize()] * 2
        seconds, cpu, equal = [], [], True
        for round_num in range(1, rounds + 3):
            took: list[float] = []
            used: list[float] = []
            for place, (context, delivery) in enumerate(ways):
                tff.framework.set_default_context(context)
                data: Any
                if place:
                    groups, _ = cohorts.round_plan(round_num, delivery.deliver)
                    data = names.train(delivery.deliver, round_num, groups)
                else:
                    data, _ = cohorts.round_input(round_num, delivery.deliver)
                start, before = time.perf_counter(), process_tree.cpu_of_all(os.getpid())
                states[place] = delivery.process.next(states[place], data).state
                took.append(time.perf_counter() - start)
                used.append(process_tree.cpu_of_all(os.getpid()) - before)
            seconds.append(took)
            cpu.append(used)
            equal = equal and states_digest(states[0]) == states_digest(states[1])
    return {"seconds": np.array(seconds[2:]), "cpu": np.array(cpu[2:]), "equal": equal}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=pathlib.Path, default="configs/demo.toml")
    parser.add_argument("--store", default="data/demo")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sub-rounds", type=int, default=4)
    parser.add_argument("--address", default="", help="of the cluster, or local")
    flags = parser.parse_args()
    overrides = [f"data.store={flags.store}", f"execution.sub_rounds={flags.sub_rounds}"]
    config = config_lib.load(flags.config, overrides)
    cluster = dataclasses.replace(
        config.execution.cluster, address=flags.address, wait_seconds=600.0
    )
    execution = dataclasses.replace(config.execution, cluster=cluster)
    quiet.import_tensorflow_federated()
    found = measure(dataclasses.replace(config, execution=execution), flags.rounds)
    here, node = np.median(found["seconds"], axis=0)
    more = np.median(found["seconds"][:, 1] - found["seconds"][:, 0])
    cpu_here, cpu_node = np.mean(found["cpu"], axis=0)
    print(
        f"{flags.rounds} rounds of {flags.sub_rounds} parts: here {here:.3f} s, on a node "
        f"{node:.3f} s (ratio {node / here:.2f}); median of the differences {more:+.3f} s, "
        f"{'within' if more <= 0.15 + 0.1 * here else 'above'} the goal of 0.15 s + 10 %; CPU "
        f"{cpu_here:.3f} and {cpu_node:.3f} s a round at load {os.getloadavg()[0]:.0f}; "
        f"states {'equal' if found['equal'] else 'NOT equal'}"
    )


if __name__ == "__main__":
    main()
