"""What it costs the driver to plan a round of a large population: no text, lengths alone.

    python -m benchmarks.round.round_plan --people=1000000 --clients=10000 --messages=20

Draws the lengths of all messages in memory, plans three rounds as a run on a cluster does (cohort,
sizes, packs, names) and prints the best time in microseconds a client, with and without a choice
among the messages of a client, and the bytes that name the clients.
"""

import argparse
import pickle
import time
from typing import Any

import numpy as np

from tff_keyboard import config as config_lib
from tff_keyboard.federated.learning.client_delivery import Handover
from tff_keyboard.federated.learning.client_inputs import CohortInputs

_ROUNDS = 3


class LengthsOnly:
    """The part of a client store that planning asks for.

    Args:
      people: Train clients.
      messages: Messages of each client.
    """

    vocabulary = range(10_000)

    def __init__(self, people: int, messages: int):
        self._messages = messages
        self._lengths = np.random.default_rng(1).geometric(0.12, [people, messages])
        self._ids = [f"{i:09}" for i in range(people)]

    def client_ids(self, population: str) -> list[str]:
        return self._ids

    def num_examples(self, population: str) -> np.ndarray:
        return np.full(len(self._ids), self._messages)

    def message_lengths(self, population: str, index: int) -> np.ndarray:
        return self._lengths[index]


def measure(store: Any, clients: int, max_examples: int, sub_rounds: int) -> dict[str, float]:
    """Microseconds a client, and bytes that name one."""
    config = config_lib.loads(
        "",
        [
            f"train.clients_per_round={clients}",
            f"client.max_examples={max_examples}",
            "model.units=8",
            "model.embedding_size=8",
        ],
    )
    cohorts = CohortInputs(config, store)
    handover = Handover(sub_rounds, 0, is_joined=True)
    seconds = []
    for round_num in range(1, _ROUNDS + 1):
        start = time.process_time()
        groups, _ = cohorts.round_plan(round_num, handover)
        seconds.append(time.process_time() - start)
    sent = len(pickle.dumps(tuple(map(tuple, groups))))
    return {"microseconds": 1e6 * min(seconds) / clients, "bytes": sent / clients}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=20)
    parser.add_argument("--sub-rounds", type=int, default=256)
    flags = parser.parse_args()
    store = LengthsOnly(flags.people, flags.messages)
    for max_examples in (0, flags.messages // 2):
        found = measure(store, flags.clients, max_examples, flags.sub_rounds)
        print(
            f"max_examples {max_examples}: {found['microseconds']:.1f} us a client of CPU, "
            f"{found['bytes']:.1f} bytes a client"
        )


if __name__ == "__main__":
    main()
