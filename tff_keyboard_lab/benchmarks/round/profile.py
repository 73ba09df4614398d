r"""Says where the time of the clients' work goes in a round, from a trace of TensorFlow.

python -m tff_keyboard_lab.benchmarks.round.profile --irc=STORE --sms=STORE --out=profile.json

The clients of a round are those of `round_sizes.py`: plain FedAvg with the CIFG of Gboard's size.
One pack of them runs with a full trace, on one thread, after a run without one. A trace has the
time of each operation, which is one of:

  products         products of matrices
  weight passes    other operations over whole weights: their result has at least 100,000 numbers,
                   or they change a variable, or take a norm: steps, sums of updates, copies
  small            all other operations: gates, gathers, control of the loops
  between          the part of the run in which no operation runs: TensorFlow's executor

`--first-step=separate` traces the clients without a common first step.
"""

import argparse
import collections
import dataclasses
import json
import math
import pathlib
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.algorithms.client_packing.local_context import local_context
from tff_keyboard.algorithms.client_packing.round_form import PackFunction
from tff_keyboard.algorithms.cohort_batcher import prepare_process
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.execution.engine import Job, LocalEngine
from tff_keyboard.models import build_model
from tff_keyboard.training import build
from tff_keyboard_lab.benchmarks.round.round import DIM, UNITS, VOCABULARY, run_config
from tff_keyboard_lab.benchmarks.round.round_clients import num_tokens, store_clients
from tff_keyboard_lab.benchmarks.round.round_sizes import SIZES
from tff_keyboard_lab.tools.checkout import circumstances

KINDS = ("products", "weight passes", "small", "between")
_PRODUCT = "MatMul"  # in the names of all of them: "_MklNativeFusedMatMul"
_LARGE = 100_000  # numbers of a weight: the table, the kernels; not the projection's factors
# Operations that contain others, whose time would count twice.
_CONTAINERS = frozenset(
    ["While", "StatelessWhile", "If", "StatelessIf", "PartitionedCall", "StatefulPartitionedCall"]
)


def kind_of(op: str, num_values: int) -> str | None:
    """Returns the kind of an operation with `num_values` results; None for one that has others.

    >>> kind_of("_MklMatMul", 960_000), kind_of("Sub", 960_000), kind_of("Tanh", 6_300)
    ('products', 'weight passes', 'small')
    """
    if op in _CONTAINERS:
        return None
    if _PRODUCT in op:
        return "products"
    is_pass = op == "L2Loss" or op.startswith(("Assign", "Inplace", "ResourceApply"))
    return "weight passes" if is_pass or num_values >= _LARGE else "small"


class TracingEngine(LocalEngine):
    """An engine on one thread that remembers its last job."""

    def __init__(self) -> None:
        super().__init__(1)
        self.last: Job | None = None

    def run(self, job: Job) -> Generator[tuple[int, Any], None, None]:
        """See `Engine.run`."""
        self.last = job
        return super().run(job)


def profile(clients: Sequence[Sequence[np.ndarray]], first_step: str) -> dict[str, Any]:
    """Traces the work of one pack of clients; see the module docstring.

    Args:
      clients: The batches of each client.
      first_step: `execution.first_step`.

    Returns:
      A dict that can be written as JSON: tokens of the pack, and milliseconds of each kind and of
      the operations that took longest.
    """
    config = run_config(protections=False)
    execution = dataclasses.replace(config.execution, first_step=first_step)
    config = dataclasses.replace(config, execution=execution)
    model = build_model("cifg", vocabulary_size=VOCABULARY, seed=1, units=UNITS, embedding_size=DIM)
    engine = TracingEngine()
    prepared = prepare_process(build.build_process(config, model, joined=True), engine=engine)
    largest, *_ = prepared.batcher.plan([num_tokens([client]) for client in clients])
    of_pack = [clients[position] for position in largest]
    pack = prepared.batcher.make(of_pack)
    prepared.process.next(prepared.process.initialize(), [pack])
    assert engine.last is not None
    trace = _trace(engine.last, pack)
    return {"clients": len(of_pack), "tokens": num_tokens(of_pack), **summary(trace)}


def _trace(job: Job, pack: Any) -> tf.compat.v1.RunMetadata:
    """Runs a pack in a session of its own, twice, and returns the trace of the second run."""
    assert isinstance(job.function, PackFunction)
    function = job.function.function
    arrays = [array for leaf in pack["leaves"] for array in leaf.values()]
    running = function._start()
    graph = running.session.graph
    tensors = [graph.get_tensor_by_name(name) for name in function._parameters]
    values = zip(tensors, [*arrays, pack["ends"], *job.shared], strict=True)
    feeds = {tensor: np.asarray(value, tensor.dtype.as_numpy_dtype) for tensor, value in values}
    running.session.run(list(function._results), feeds)
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    metadata = tf.compat.v1.RunMetadata()
    running.session.run(list(function._results), feeds, options=options, run_metadata=metadata)
    return metadata


def summary(trace: tf.compat.v1.RunMetadata) -> dict[str, Any]:
    """Returns the milliseconds of each kind, their sum, and those of the 12 longest operations."""
    kinds = dict.fromkeys(KINDS, 0.0)
    operations: collections.Counter[str] = collections.Counter()
    begins, ends, busy = [], [], 0.0
    for device in trace.step_stats.dev_stats:
        for node in device.node_stats:
            op = node.timeline_label.partition(" = ")[2].partition("(")[0] or node.node_name
            shapes = [output.tensor_description.shape.dim for output in node.output]
            num_values = max((math.prod(dim.size for dim in dims) for dims in shapes), default=0)
            kind = kind_of(op, num_values)
            begins.append(node.all_start_micros)
            ends.append(node.all_start_micros + node.all_end_rel_micros)
            if kind is None:
                continue
            milliseconds = (node.op_end_rel_micros - node.op_start_rel_micros) / 1e3
            kinds[kind] += milliseconds
            operations[op] += milliseconds
            busy += milliseconds
    total = (max(ends) - min(begins)) / 1e3
    kinds["between"] = max(0.0, total - busy)
    return {"milliseconds": total, "kinds": kinds, "operations": dict(operations.most_common(12))}


def main() -> None:
    """Profiles all sizes, prints a table, and writes the JSON file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--irc", type=pathlib.Path, required=True)
    parser.add_argument("--sms", type=pathlib.Path, required=True)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--first-step", default="auto", choices=["auto", "shared", "separate"])
    parser.add_argument("--longest", type=int, default=20, help="largest number of targets")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    flags = parser.parse_args()
    local_context(threads=1)
    results = {}
    for name in flags.sizes:
        size = SIZES[name]
        store = ClientStore({"irc": flags.irc, "sms": flags.sms}[size.store])
        clients = store_clients(
            store, size.clients, size.messages, size.batch_size, flags.longest, seed=1
        )
        results[name] = profile(clients, flags.first_step)
        content = {**circumstances(), "first_step": flags.first_step, "sizes": results}
        flags.out.write_text(json.dumps(content, indent=1) + "\n")
    print(f"| messages | ms a client | {' | '.join(KINDS)} |")
    print(f"|---|---|{'---|' * len(KINDS)}")
    for name, result in results.items():
        shares = [f"{result['kinds'][kind] / result['milliseconds']:.0%}" for kind in KINDS]
        each = result["milliseconds"] / result["clients"]
        print(f"| {name} | {each:.2f} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
