"""What TFF's serialisation of a state costs: as a tree, and as one vector beside the other leaves.

python -m benchmarks.state_vector

The state is that of FedAdam on the CIFG of 1.4 M parameters, 17 MB. CPU ms, medians; the two
alternate. A round sends its state once.
"""

import argparse
import json
import statistics
import time

import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.executors import value_serialization

from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.build_process import build_process
from tff_keyboard.models import build_model
from tff_keyboard.packs.state_vector import StateVector
from tff_keyboard.program import execution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    flags = parser.parse_args()
    config = config_lib.load("configs/optimisation/fedadam.toml")
    process = build_process(config, build_model("cifg", vocabulary_size=10_000, seed=1))
    with execution.install_context():
        state = process.initialize()
    state_type = process.initialize.type_signature.result.member  # type: ignore[attr-defined]
    vector = StateVector(state_type)
    joined = vector.join(state)

    def send(value, value_type) -> None:
        proto, _ = value_serialization.serialize_value(
            value, tff.FederatedType(value_type, tff.SERVER)
        )
        proto.SerializeToString()

    def as_tree() -> None:
        send(state, state_type)

    def as_vector() -> None:
        for value, value_type in zip(joined, vector.type, strict=True):
            send(value, value_type)

    milliseconds: dict[str, list[float]] = {"tree": [], "vector": []}
    for _ in range(flags.repeats):
        for name, work in (("tree", as_tree), ("vector", as_vector)):
            start = time.process_time()
            work()
            milliseconds[name].append(1e3 * (time.process_time() - start))
    print(
        json.dumps(
            {
                "megabytes": joined.vector.nbytes / 1e6,
                "cpu_ms": {name: statistics.median(v) for name, v in milliseconds.items()},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
