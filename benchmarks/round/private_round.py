"""What privacy adds to a round's CPU: plain and private rounds of the same clients in turn.

python -m benchmarks.round.private_round --store=data/ubuntu_irc --out=private_round.json

  tiny    one message of one word: what a client costs besides its text
  store   cohorts of the store, as training draws them

"mean" is the plain mean with its default protection (zeroing and adaptive clipping), the others
clip to a fixed norm and add the noise of their mechanism, made as in a run by the keyed generator.
CPU is that of worker and this process together; every process gets a first round that does not
count. `over_mean` is the median over rounds of the quotient by the plain round beside it.
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.round import packs
from tff_keyboard.privacy.mechanisms.mechanism import optimal_mechanism
from tff_keyboard.privacy.mechanisms.noise_streams import NoiseOfRounds, keyed_draw
from tools import process_tree
from tools.checkout import commit

PLAIN = "mean"
ROUNDS, SEPARATION = 500, 50  # for which a correlated mechanism is optimised


def noise_of(mechanism: str, size: int) -> NoiseOfRounds:
    """Noise of a key of zeros."""
    chosen = optimal_mechanism(mechanism, rounds=ROUNDS, min_separation=SEPARATION)
    return chosen.noise(keyed_draw(bytes(32)), size)


def build(name: str, store: Any, clients: int) -> Any:
    """The delivery of a process whose clients come in 16 packs, as a run's do."""
    from tff_keyboard.federated.algorithms.build_process import build_initial_model, build_process
    from tff_keyboard.federated.learning.client_delivery import build_delivery

    rule = PLAIN if name == PLAIN else "private"
    config = packs.config_for(rule, str(store.directory), clients, 0)
    model = build_initial_model(config, store.vocabulary)
    process = build_process(
        config, model, build_noise=lambda size: noise_of(name, size), joined=True
    )
    return build_delivery(process, config)


def measure(
    names: Sequence[str], store: Any, clients: int, repeats: int, worker: Any
) -> list[dict[str, Any]]:
    """A row for each kind of clients and each process."""
    from tff_keyboard.federated.learning.client_inputs import CohortInputs

    inputs = CohortInputs(packs.config_for(PLAIN, str(store.directory), clients, 0), store)
    built = {name: build(name, store, clients) for name in names}
    states = {name: one.process.initialize() for name, one in built.items()}
    rows = []
    for kind in ("tiny", "store"):
        cpu: dict[str, list[float]] = {name: [] for name in names}
        for round_num in range(1, repeats + 2):
            batches, sizes = packs.cohort(kind, inputs, round_num, clients)
            for name, one in built.items():
                begin = _cpu(worker)
                states[name] = one.process.next(states[name], one.deliver(batches, sizes)).state
                if round_num > 1:
                    cpu[name].append(_cpu(worker) - begin)
        for name, seconds in cpu.items():
            quotients = [a / b for a, b in zip(seconds, cpu[PLAIN], strict=True)]
            rows.append(
                {
                    "clients": kind,
                    "process": name,
                    "cpu_ms_a_client": 1e3 * statistics.median(seconds) / clients,
                    "over_mean": statistics.median(quotients),
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


def _cpu(worker: Any) -> float:
    return time.process_time() + process_tree.cpu_seconds(worker.pid)


def noise_alone(name: str, size: int, rounds: int = 5) -> float:
    """CPU ms to make a round's noise."""
    noise = noise_of(name, size)
    noise(0)
    begin = time.process_time()
    for round_num in range(1, rounds + 1):
        noise(round_num)
    return 1e3 * (time.process_time() - begin) / rounds


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--mechanisms", default="gaussian,blt")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    flags = parser.parse_args()

    from tff_keyboard.host import quiet

    quiet.import_tensorflow_federated()
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.program.engines import execution

    store = ClientStore(flags.store)
    mechanisms = flags.mechanisms.split(",")
    with execution.install_context(1) as installed:
        worker = installed.pool.members[0]
        rows = measure([PLAIN, *mechanisms], store, flags.clients, flags.repeats, worker)
    noise = {name: noise_alone(name, 1_400_000) for name in mechanisms}
    print(json.dumps(noise))
    result = {"commit": commit(), "rounds": rows, "noise_ms_a_round": noise}
    flags.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
