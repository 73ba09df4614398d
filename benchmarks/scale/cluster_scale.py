"""What a large population and large cohorts cost the machine that drives a cluster.

    python -m tests.support.cluster.cluster_fakes --nodes=3 -- python -m
    benchmarks.scale.cluster_scale

Writes a store of made-up people (words drawn at random, `--messages` each of 1 to 16 words), trains
a small model for a few rounds of each size (`CLIENTS:PARTS`) on the cluster that RAY_ADDRESS names,
and prints for each size CPU of the driver (its process and its TFF worker, which merges) and of the
nodes, the driver's share, its memory, and the bytes that travel. CPU, not wall: nodes that share
the driver's cores make its rounds long, not its work. At last what a round, a client, a part and a
second of waiting cost, fitted to the sizes, and what follows for 1, 10 and 100 nodes of `--cores`
cores, `--parts-per-node` parts for each. `--json` gets it all, `--picture` what
the nodes did in a round of the last size. The store is deleted, unless `--store` names one to keep.
"""

import argparse
import contextlib
import json
import os
import pathlib
import pickle
import re
import tempfile
import time
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from benchmarks.scale import made_stores
from benchmarks.scale.scale import words
from tff_keyboard import config as config_lib
from tff_keyboard.host import quiet
from tff_keyboard.storage import names
from tools import process_tree

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


class Size(NamedTuple):
    """Clients and parts of a round."""

    clients: int
    parts: int

    @classmethod
    def of(cls, text: str) -> "Size":
        """The size that CLIENTS:PARTS names."""
        if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", text):
            raise argparse.ArgumentTypeError(f"CLIENTS:PARTS, got {text!r}")
        return cls(*map(int, text.split(":")))


class Weighed:
    """An engine that can weigh what passes: `sent` once a node, `named` and `received` in all.

    Who is given it does not close it: the engine serves all sizes.
    """

    def __init__(self, engine: Any):
        self._engine = engine
        self.weighs = False
        self.sent = self.named = self.received = 0

    def run(self, job: Any) -> Generator[tuple[int, Any], None, None]:
        if not self.weighs:
            yield from self._engine.run(job)
            return
        self.sent += len(pickle.dumps(job.shared, 5))
        self.named += sum(len(pickle.dumps(item, 5)) for item in job.items)
        with contextlib.closing(self._engine.run(job)) as results:
            for position, result in results:
                self.received += len(pickle.dumps(result, 5))
                yield position, result

    def close(self) -> None:
        pass

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


def measure(
    config: config_lib.RunConfig, store: Any, engine: Weighed, rounds: int
) -> dict[str, Any]:
    """Means over `rounds` rounds after a first one: CPU seconds, wall, bytes; peak MB."""
    import tensorflow_federated as tff

    from tff_keyboard.federated.algorithms import build_process
    from tff_keyboard.federated.learning import client_delivery, client_inputs
    from tff_keyboard.program.engines import execution
    from tff_keyboard.training.on_cluster.client_references import Recipe

    parts = config.execution.sub_rounds
    with execution.install_context(
        num_subrounds=parts, merge_block=config.execution.merge_block, engine=engine
    ) as cluster:
        tff.framework.set_default_context(cluster.context)
        model = build_process.build_initial_model(config, store.vocabulary)
        cohorts = client_inputs.CohortInputs(config, store)
        named = Recipe.of(config, store)
        process = build_process.build_process(config, model, joined=True)
        delivery = client_delivery.build_delivery(process, config, thin=True)
        state = delivery.process.initialize()
        rows, own = [], os.getpid()
        for round_num in range(1, rounds + 3):
            engine.weighs = round_num == rounds + 2  # weighing costs the driver time
            engine.pop_spans()
            wall, driver, nodes = time.perf_counter(), process_tree.cpu_of_all(own), node_seconds()
            planning = time.process_time()
            groups, _ = cohorts.round_plan(round_num, delivery.deliver)
            planning = time.process_time() - planning
            data = named.train_clients(delivery.deliver, round_num, groups)
            state = delivery.process.next(state, data).state
            row = {"planning": planning, "driver": process_tree.cpu_of_all(own) - driver}
            row |= {"nodes": node_seconds() - nodes, "wall": time.perf_counter() - wall}
            rows.append(row)
            if round_num == rounds + 1:
                spans = engine.pop_spans()
    found: dict[str, Any] = {
        name: float(np.mean([row[name] for row in rows[1:-1]])) for name in rows[0]
    }
    found |= {"sent": engine.sent, "named": engine.named, "received": engine.received}
    engine.sent = engine.named = engine.received = 0
    return found | {"megabytes": process_tree.peak_megabytes(own), "spans": spans}


def config_of(store: str, size: Size, flags: argparse.Namespace) -> config_lib.RunConfig:
    return config_lib.loads(
        "",
        [
            f"data.store={json.dumps(store)}",
            f"train.clients_per_round={size.clients}",
            f"model.units={flags.units}",
            f"model.embedding_size={flags.embedding}",
            "client.max_examples=0",
            f"execution.sub_rounds={size.parts}",
            "execution.engine=ray",
            f"execution.cluster.min_nodes={flags.nodes}",
            "execution.merge_block=1",
            "execution.cluster.wait_seconds=3600",
        ],
    )


def costs_of(sizes: list[Size], walls: list[float], values: list[float]) -> dict[str, float]:
    """What a round, a client, a part and a second of waiting cost.

    Least squares of relative errors among numbers >= 0. Waiting is a cost of its own (the driver
    looks who is there), because on a shared machine rounds take longer than on nodes of their own.

    Args:
      sizes: Sizes, no fewer than costs.
      walls: Seconds that a round of each size took; zeros where waiting costs nothing.
      values: CPU seconds of a round of each size.

    >>> sizes = [Size(1, 1), Size(9, 1), Size(9, 5), Size(1, 2)]
    >>> found = costs_of(sizes, [1.0, 2.0, 0.0, 0.0], [18.0, 44.0, 28.0, 9.0])
    >>> {name: round(value, 6) for name, value in found.items()}
    {'round': 5.0, 'client': 2.0, 'part': 1.0, 'second': 10.0}
    """
    rows = zip(sizes, walls, strict=True)
    table = np.array([[1.0, size.clients, size.parts, wall] for size, wall in rows])
    wanted = np.array(values)
    found, _ = optimize.nnls(table / wanted[:, None], np.ones(len(sizes)))
    return dict(zip(("round", "client", "part", "second"), found.tolist(), strict=True))


def capacity(
    driver: dict[str, float], node: dict[str, float], clients: int, flags: argparse.Namespace
) -> list[dict[str, float]]:
    """What follows for more nodes, as if their cores did nothing else and lay in step."""
    rows = []
    for nodes in (1, 10, 100):
        parts = nodes * flags.parts_per_node
        computing = node["round"] + clients * node["client"] + parts * node["part"]
        computing /= nodes * flags.cores
        driving = driver["round"] + clients * driver["client"] + parts * driver["part"]
        driving += computing * driver["second"]
        rows.append(
            {
                **{"nodes": nodes, "parts": parts, "clients": clients},
                **{"nodes_seconds": computing, "driver_seconds": driving},
                "people_a_second": clients / max(computing, driving),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=5)
    sizes = [Size(300, 6), Size(1_000, 12), Size(1_000, 48), Size(10_000, 12), Size(10_000, 48)]
    parser.add_argument("--sizes", type=Size.of, nargs="+", default=sizes)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--cores", type=int, default=16, help="of a node in the table")
    parser.add_argument("--parts-per-node", type=int, default=4, help="in the table")
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--embedding", type=int, default=16)
    parser.add_argument("--rows", type=int, default=2_000, help="of the vocabulary")
    parser.add_argument("--store", type=pathlib.Path, help="made if it is not there, and kept")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path, help="SVG")
    flags = parser.parse_args()
    with contextlib.ExitStack() as at_end:
        folder = flags.store or pathlib.Path(at_end.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / names.DATA_CARD).exists():
            start = time.process_time()
            write_store(folder, flags.people, flags.messages, flags.rows)
            size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
            print(f"store: {size:,.0f} MB, {time.process_time() - start:.0f} CPU s", flush=True)
        found = measure_all(folder, flags)
    show(flags, found)


def measure_all(folder: pathlib.Path, flags: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures each size on one engine; prints each."""
    quiet.import_tensorflow_federated()
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.training.on_cluster import execution_engine

    store = ClientStore(str(folder))
    configs = [config_of(str(folder), size, flags) for size in flags.sizes]
    found = []
    with contextlib.closing(execution_engine.build_engine(configs[0], [store])) as engine:
        weighed = Weighed(engine)
        for size, config in zip(flags.sizes, configs, strict=True):
            row = measure(config, store, weighed, flags.rounds)
            found.append(row)
            share = row["driver"] / (row["driver"] + row["nodes"])
            print(
                f"{size.clients:,} clients, {size.parts} parts: driver {row['driver']:.2f} CPU s "
                f"a round ({1e6 * row['driver'] / size.clients:.0f} us a client, of which planning "
                f"{1e6 * row['planning'] / size.clients:.1f}), nodes {row['nodes']:.1f} CPU s, "
                f"share of the driver {share:.1%}; {row['wall']:.1f} s wall at load "
                f"{os.getloadavg()[0]:.0f}; peak {row['megabytes']:,.0f} MB; down "
                f"{row['sent'] / 1e3:,.0f} kB a node and {row['named'] / size.clients:.1f} bytes a "
                f"client, up {row['received'] / 1e6:.2f} MB",
                flush=True,
            )
    return found


def show(flags: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    """The plane, the table, and the files that were asked for."""
    from tff_keyboard.report import node_chart

    walls = [row["wall"] for row in found]
    driver = costs_of(flags.sizes, walls, [row["driver"] for row in found])
    node = costs_of(flags.sizes, [0.0] * len(found), [row["nodes"] for row in found])
    for what, costs in (("driver", driver), ("nodes", node)):
        print(
            f"{what}: {costs['round']:.3f} CPU s a round, {1e6 * costs['client']:.1f} us a client, "
            f"{1e3 * costs['part']:.1f} ms a part, {1e3 * costs['second']:.1f} ms a second"
        )
    table = capacity(driver, node, max(size.clients for size in flags.sizes), flags)
    for row in table:
        print(
            f"{row['nodes']:3} nodes of {flags.cores} cores, {row['clients']:,} a round in "
            f"{row['parts']} parts: nodes {row['nodes_seconds']:.2f} s, driver "
            f"{row['driver_seconds']:.2f} s: {row['people_a_second']:,.0f} people a second"
        )
    spans = [row.pop("spans") for row in found][-1]
    if flags.json is not None:
        options = {name: getattr(flags, name) for name in ("people", "messages", "rounds", "cores")}
        model = {name: getattr(flags, name) for name in ("units", "embedding", "rows")}
        measured = [{**size._asdict(), **row} for size, row in zip(flags.sizes, found, strict=True)]
        content = {"options": options, "model": model, "load": os.getloadavg()[0]}
        content |= {"measured": measured, "driver": driver, "nodes": node, "capacity": table}
        flags.json.write_text(json.dumps(content, indent=1) + "\n")
    if flags.picture is not None:
        times = [
            node_chart.PartTime(flags.rounds + 1, s.node, s.item, s.start, s.end, s.outcome)
            for s in spans
        ]
        flags.picture.write_text(node_chart.round_picture(times))


if __name__ == "__main__":
    main()
