"""A training step with float32 products against bfloat16 ones, by the size of the batch.

python -m benchmarks.bfloat16 --out=bfloat16.json

The step is the packed CIFG at V = 10,000 with SGD in place. "bfloat16" lets TensorFlow's graph
optimizer (`auto_mixed_precision_onednn_bfloat16`) put its casts around matrix products; weights and
sums stay float32. The option belongs to a process, so there are two, one thread each, and the
passes alternate between them. CPU seconds; medians, and the median of the ratios of neighbours.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

from benchmarks import step as step_lib

KINDS = ("float32", "bfloat16")
MESSAGES = (1, 5, 16, 64)  # a batch


def serve(kind: str) -> None:
    """Reads a batch size a line, answers with loss, tokens and the CPU ms of a step on it."""
    import tensorflow as tf

    from tff_keyboard.models import build_model

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if kind == "bfloat16":
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
    model = build_model("cifg", vocabulary_size=step_lib.VOCABULARY, seed=1)
    step = step_lib.packed_step(model, clip_norm=1.0)
    print("ready", flush=True)
    for line in sys.stdin:
        (array,) = step_lib.make_batches(1, int(line), 20, 0, sort_by_length=False)
        batch = tf.constant(array)
        start = time.process_time()
        loss = float(step(batch))
        milliseconds = 1e3 * (time.process_time() - start)
        print(json.dumps([loss, int(np.count_nonzero(array[:, 1:])), milliseconds]), flush=True)


def ask(server: subprocess.Popen, messages: int) -> list[float]:
    """One step of a server."""
    assert server.stdin is not None and server.stdout is not None  # noqa: PT018
    server.stdin.write(f"{messages}\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--out", type=pathlib.Path, help="JSON file; printed in any case")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.serve:
        serve(flags.serve)
        return
    command = [sys.executable, "-m", "benchmarks.bfloat16"]
    servers = {
        kind: subprocess.Popen(
            [*command, f"--serve={kind}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for kind in KINDS
    }
    for server in servers.values():
        assert server.stdout is not None
        server.stdout.readline()
    rows = []
    for messages in MESSAGES:
        found = [
            {kind: ask(server, messages) for kind, server in servers.items()}
            for _ in range(flags.repeats + 2)
        ][2:]  # the first ones compile
        milliseconds = {kind: [each[kind][2] for each in found] for kind in KINDS}
        pairs = zip(*milliseconds.values(), strict=True)
        rows.append(
            {
                "messages": messages,
                "tokens": found[0]["float32"][1],
                "cpu_ms": {kind: statistics.median(v) for kind, v in milliseconds.items()},
                "times_faster": statistics.median(wide / half for wide, half in pairs),
                "losses": {kind: found[-1][kind][0] for kind in KINDS},
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    for server in servers.values():
        server.stdin.close()  # type: ignore[union-attr]
        server.wait()
    report = {
        "date": datetime.date.today().isoformat(),
        "commit": step_lib.commit(),
        "rows": rows,
    }
    if flags.out:
        flags.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
