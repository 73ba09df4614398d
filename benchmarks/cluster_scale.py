"""What a large population and large cohorts cost the machine that drives a cluster.

    python -m tests.cluster_fakes --nodes=3 -- \
        python -m benchmarks.cluster_scale --people=1000000 --clients 1000 10000

Writes a store of made-up people (words drawn at random, `--messages` each of 1 to 16 words), trains
a small model for a few rounds of each size on the cluster that RAY_ADDRESS names, and prints for
each size CPU of the driver and of the nodes, the driver's share, its memory, and the bytes that
travel.
CPU, not wall: nodes that share the driver's cores make its rounds long, not its work. At last a
straight line through the sizes (what a round costs, what a client costs) and what follows from it
for 1, 10 and 100 nodes of `--cores` cores: people a second, and the share of one of the driver's
cores. The store is deleted, unless `--store` names one to keep.
"""

import argparse
import contextlib
import json
import os
import pathlib
import pickle
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks import made_stores, process_tree
from benchmarks.scale import words
from tff_keyboard import config as config_lib
from tff_keyboard import quiet
from tff_keyboard.storage import names

_TEXTS = 4096  # different messages
_LONGEST = 16
_NODE_PROCESSES = ("ray::NodeServer", "worker_binary")


def write_store(directory: pathlib.Path, people: int, messages: int, rows: int) -> None:
    """A client store, all of them train clients; 60 bytes a message and 130 a person."""
    from tff_keyboard.data.store import example_bytes, store_writer

    rng = np.random.default_rng(1)
    vocabulary = words(rows)
    vocabulary.save(directory / names.VOCABULARY)
    lengths = rng.integers(1, _LONGEST + 1, _TEXTS)
    texts = [
        example_bytes.example_bytes(
            b"".join(map(example_bytes.varint, rng.integers(4, rows, length).tolist())), b"w"
        )
        for length in lengths
    ]
    sizes = lengths.tolist()
    writer = store_writer.StoreWriter(directory)
    for start in range(0, people, 10_000):
        drawn = rng.integers(0, _TEXTS, [min(10_000, people - start), messages]).tolist()
        for person, own in enumerate(drawn, start=start):
            writer.add_client(
                "train", f"{person:08}", [texts[i] for i in own], [sizes[i] for i in own]
            )
    made_stores.finish(directory, writer, vocabulary)


class Weighed:
    """An engine that weighs what passes: `sent` once a node, `named` and `received` in all."""

    def __init__(self, engine: Any):
        self._engine = engine
        self.reset()

    def reset(self) -> None:
        self.sent = self.named = self.received = 0

    def run(self, job: Any) -> Any:
        self.sent += len(pickle.dumps(job.shared, 5))
        self.named += sum(len(pickle.dumps(item, 5)) for item in job.items)
        with contextlib.closing(self._engine.run(job)) as results:
            for position, result in results:
                self.received += len(pickle.dumps(result, 5))
                yield position, result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def node_seconds() -> float:
    """CPU of all processes that compute for nodes on this machine, but for the driver's own."""
    own = set(process_tree.descendants(os.getpid()))
    total = 0.0
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (directory / "cmdline").read_bytes().decode(errors="replace")
            if any(text in command for text in _NODE_PROCESSES) and int(directory.name) not in own:
                total += process_tree.cpu_seconds(int(directory.name))
    return total


def measure(config: config_lib.RunConfig, rounds: int, weigh: bool) -> dict[str, float]:
    """Of a round, means over `rounds` after a first one: CPU seconds, wall, bytes; peak MB."""
    import tensorflow_federated as tff

    from tff_keyboard.algorithms import build_process
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.learning import client_delivery, client_inputs
    from tff_keyboard.program import execution
    from tff_keyboard.training import execution_engine

    store = ClientStore(config.data.store)
    engine: Any = execution_engine.build_engine(config, [store])
    engine = Weighed(engine) if weigh else engine
    parts = config.execution.sub_rounds
    with execution.install_context(num_subrounds=parts, engine=engine) as cluster:
        tff.framework.set_default_context(cluster.context)
        model = build_process.build_initial_model(config, store.vocabulary)
        cohorts = client_inputs.CohortInputs(config, store)
        named = execution_engine.ByName(config, [store])
        process = build_process.build_process(config, model, joined=True)
        delivery = client_delivery.build_delivery(process, config, thin=True)
        state = delivery.process.initialize()
        rows = []
        for round_num in range(1, rounds + 2):
            wall, cpu, nodes = time.perf_counter(), time.process_time(), node_seconds()
            groups, _ = cohorts.round_plan(round_num, delivery.deliver)
            plan = time.process_time() - cpu
            data = named.train(delivery.deliver, round_num, groups)
            state = delivery.process.next(state, data).state
            row = {
                "plan": plan,
                "driver": time.process_time() - cpu,
                "nodes": node_seconds() - nodes,
                "wall": time.perf_counter() - wall,
            }
            if weigh:
                row |= {"sent": engine.sent, "named": engine.named, "received": engine.received}
                engine.reset()
            rows.append(row)
        found = {name: float(np.mean([row[name] for row in rows[1:]])) for name in rows[0]}
        return found | {"megabytes": process_tree.peak_megabytes(os.getpid())}


def config_of(store: str, clients: int, flags: argparse.Namespace) -> config_lib.RunConfig:
    return config_lib.loads(
        "",
        [
            *(f"data.store={json.dumps(store)}", f"train.clients_per_round={clients}"),
            *(f"model.units={flags.units}", f"model.embedding_size={flags.units}"),
            *("client.max_examples=0", f"execution.sub_rounds={flags.sub_rounds}"),
            *("execution.engine=ray", f"execution.cluster.min_nodes={flags.nodes}"),
            "execution.cluster.wait_seconds=3600",
        ],
    )


def line(sizes: list[int], values: list[float]) -> tuple[float, float]:
    """What a round costs and what a client costs: least squares; one size has no round's cost."""
    if len(sizes) == 1:
        return 0.0, values[0] / sizes[0]
    slope, start = np.polyfit(sizes, values, 1)
    return float(start), float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--cores", type=int, default=16, help="of a node in the table")
    parser.add_argument("--sub-rounds", type=int, default=48)
    parser.add_argument("--units", type=int, default=16, help="of the model, and its embedding")
    parser.add_argument("--rows", type=int, default=2_000, help="of the vocabulary")
    parser.add_argument("--store", type=pathlib.Path, help="made if it is not there, and kept")
    flags = parser.parse_args()
    with contextlib.ExitStack() as at_end:
        folder = flags.store or pathlib.Path(at_end.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / names.DATA_CARD).exists():
            start = time.process_time()
            write_store(folder, flags.people, flags.messages, flags.rows)
            size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
            print(f"store: {size:,.0f} MB, {time.process_time() - start:.0f} CPU s", flush=True)
        quiet.import_tensorflow_federated()
        found = []
        for clients in flags.clients:
            config = config_of(str(folder), clients, flags)
            row = measure(config, flags.rounds, weigh=False)
            weights = measure(config, 1, weigh=True)
            row |= {name: weights[name] for name in ("sent", "named", "received")}
            found.append(row)
            share = row["driver"] / (row["driver"] + row["nodes"])
            print(
                f"{clients:,} clients: driver {row['driver']:.2f} CPU s a round "
                f"({1e3 * row['driver'] / clients:.3f} ms a client, of which planning "
                f"{1e6 * row['plan'] / clients:.1f} us), nodes {row['nodes']:.1f} CPU s, share of "
                f"the driver {share:.1%}; {row['wall']:.1f} s wall at load {os.getloadavg()[0]:.0f}"
                f"; peak {row['megabytes']:,.0f} MB; down {row['sent'] / 1e3:,.0f} kB a node and "
                f"{row['named'] / clients:.1f} bytes a client, up {row['received'] / 1e6:.2f} MB",
                flush=True,
            )
        show_capacity(flags, found)


def show_capacity(flags: argparse.Namespace, found: list[dict[str, float]]) -> None:
    """What follows for more nodes, as if their cores did nothing else."""
    fixed, driver = line(flags.clients, [row["driver"] for row in found])
    _, node = line(flags.clients, [row["nodes"] for row in found])
    clients = max(flags.clients)
    print(
        f"driver: {fixed:.2f} CPU s a round and {1e3 * driver:.3f} ms a client; "
        f"nodes: {1e3 * node:.2f} ms a client"
    )
    for nodes in (1, 10, 100):
        computing = clients * node / (nodes * flags.cores)
        driving = fixed + clients * driver
        seconds = max(computing, driving)
        print(
            f"{nodes:3} nodes of {flags.cores} cores, {clients:,} a round: nodes "
            f"{computing:.1f} s, driver {driving:.1f} s: {clients / seconds:,.0f} people a second"
        )


if __name__ == "__main__":
    main()
