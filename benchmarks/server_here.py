"""What a round costs whose server is the driver, and one that is a single call to the worker.

python -m benchmarks.server_here --store=data/ubuntu_irc --people=8,32 --out=server_here.json

Rounds of configs/reference/ubuntu_irc.toml (FedAdam, eight messages of each person) with
the same people, the two ways in turn. CPU seconds of driver and worker together; the first five
rounds do not count. Fails if a state differs by a bit.
"""

import argparse
import json
import os
import pathlib
import statistics
import time
from typing import Any

import numpy as np

from benchmarks import process_tree
from benchmarks.step import commit

_WARM_UP = 5


def measure(store: Any, people: int, rounds: int) -> dict[str, Any]:
    """A row."""
    import tensorflow_federated as tff

    from tff_keyboard import config as config_lib
    from tff_keyboard.algorithms.build_process import build_initial_model, build_process
    from tff_keyboard.learning.client_delivery import build_delivery
    from tff_keyboard.learning.client_inputs import CohortInputs
    from tff_keyboard.packs.compiler import PackedProcess

    overrides = [f"data.store={store.directory}", f"train.clients_per_round={people}"]
    config = config_lib.load("configs/reference/ubuntu_irc.toml", overrides)
    process = build_process(config, build_initial_model(config, store.vocabulary), joined=True)
    delivery = build_delivery(process, config)
    ways = {"one call": PackedProcess(process), "server here": delivery.process}
    inputs = CohortInputs(config, store)
    states = {name: way.initialize() for name, way in ways.items()}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    wall: dict[str, list[float]] = {name: [] for name in ways}
    tokens = []
    for round_num in range(1, rounds + 1):
        packs, facts = inputs.round_input(round_num, delivery.deliver)
        tokens.append(facts["tokens"])
        for name, way in ways.items():
            before, start = process_tree.cpu_of_all(os.getpid()), time.monotonic()
            states[name] = way.next(states[name], packs).state
            wall[name].append(time.monotonic() - start)
            cpu[name].append(process_tree.cpu_of_all(os.getpid()) - before)
        leaves = [
            tff.structure.flatten(tff.structure.from_container(state, recursive=True))
            for state in states.values()
        ]
        if not all(map(np.array_equal, *leaves)):
            raise SystemExit(f"error: after round {round_num} the two states differ")
    kept = {name: values[_WARM_UP:] for name, values in cpu.items()}
    return {
        "people": people,
        "tokens_a_round": statistics.mean(tokens),
        "rounds": rounds - _WARM_UP,
        "cpu_seconds_a_round": {name: statistics.mean(values) for name, values in kept.items()},
        "ratio": sum(kept["server here"]) / sum(kept["one call"]),
        "seconds_a_round": {
            name: statistics.median(values[_WARM_UP:]) for name, values in wall.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", required=True)
    parser.add_argument("--people", default="8,32")
    parser.add_argument("--rounds", type=int, default=45)
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()

    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.program import execution

    store = ClientStore(flags.store)
    with execution.install_context(1):
        rows = [measure(store, int(people), flags.rounds) for people in flags.people.split(",")]
    text = json.dumps({"commit": commit(), "load": os.getloadavg()[0], "rows": rows}, indent=1)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
