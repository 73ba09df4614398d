"""What the first steps of several clients cost side by side, in one matrix product each.

python -m benchmarks.side_by_side --out=docs/results/side_by_side.json

Clients share the server's weights until their first update, so the first batches of a pack could
go forwards, and back as far as the activations, as one batch; the gradients of the weights, a
matrix of 1.4 M numbers for each client, remain one by one. The packed CIFG at V = 10,000, clients
with one message; one process, one thread, CPU ms a client, best of `--repeats`.

  alone     loss and gradients of each client by itself, as training has it
  together  the same with the first part in one batch
  weights   the part of it that is one by one

Both give the gradients' norms, which must agree to 1e-4 relative, or this ends with an error.
"""

import argparse
import datetime
import json
import os
import pathlib
import time
from typing import Any

import numpy as np

from benchmarks import step as step_lib

CLIENTS = 8  # of a pack
WORDS = (1, 7, 15)  # of each client's message


def gradients_alone(model: Any, batch: Any) -> Any:
    """Of one client: `[V, D], [D, 3U], [D, 3U], [3U], [U, D]`."""
    import tensorflow as tf

    from tff_keyboard.models.softmax_loss import softmax_loss

    with tf.GradientTape() as tape:
        hidden, table, bias, targets = model.packed_hidden_at_targets(
            batch[:, :-1], batch[:, 1:], training=True
        )
        loss = tf.reduce_mean(softmax_loss(hidden, table, bias, targets)[0])
    return tape.gradient(loss, model.trainable_variables)


def activations_together(model: Any, batch: Any) -> dict[str, Any]:
    """Of all clients, one message each: what the gradients of weights are products of, [n, ...]."""
    import tensorflow as tf

    from tff_keyboard.models import cifg, packing, recurrence

    ids, targets = batch[:, :-1], batch[:, 1:]
    lengths = tf.math.count_nonzero(targets, axis=1, dtype=tf.int32)
    packed = packing.pack(lengths, tf.shape(ids)[1])
    client = packed.positions[:, 0]
    weight = 1.0 / tf.cast(tf.gather(lengths, client), tf.float32)[:, tf.newaxis]
    words = tf.gather_nd(ids, packed.positions)
    table, kernel, recurrent_kernel, bias, projection = map(
        tf.convert_to_tensor, model.trainable_variables
    )
    inputs = tf.gather(table, words)
    pre = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
    cell = cifg.CifgCell(projection.shape[0], projection.shape[1])
    steps, weights = recurrence._Steps(packed), (recurrent_kernel, projection)
    outputs, before, saved = recurrence._forward(cell, pre, weights, steps)
    (hidden,) = recurrence._concat([outputs], cell.state_sizes[:1])
    targets = tf.gather_nd(targets, packed.positions)
    p = tf.nn.softmax(tf.matmul(hidden, table, transpose_b=True))
    d_hidden = weight * (tf.matmul(p, table) - tf.gather(table, targets))
    d_pre, rights = recurrence._backward(
        cell, before, saved, d_hidden, weights, steps, pre.shape[-1]
    )
    return {
        "client": client,
        "words": words,
        "targets": targets,
        "inputs": inputs,
        "p": p,
        "weighted": weight * hidden,
        "before": recurrence._concat(before, cell.state_sizes)[0],
        "m": recurrence._concat(saved, cell.saved_sizes)[-1],
        "d_pre": d_pre,
        "d_r": rights[0],
        "d_inputs": tf.matmul(d_pre, kernel, transpose_b=True),
    }


def gradients_of(activations: dict[str, Any], client: Any) -> Any:
    """Of one client's weights, as `gradients_alone`."""
    import tensorflow as tf

    own = tf.where(tf.equal(activations["client"], client))[:, 0]
    a = {name: tf.gather(values, own) for name, values in activations.items()}
    d_table = tf.matmul(a["p"], a["weighted"], transpose_a=True)
    d_table = tf.raw_ops.InplaceSub(x=d_table, i=a["targets"], v=a["weighted"])
    d_table = tf.tensor_scatter_nd_add(d_table, a["words"][:, tf.newaxis], a["d_inputs"])
    return [
        d_table,
        tf.matmul(a["inputs"], a["d_pre"], transpose_a=True),
        tf.matmul(a["before"], a["d_pre"], transpose_a=True),
        tf.reduce_sum(a["d_pre"], axis=0),
        tf.matmul(a["m"], a["d_r"], transpose_a=True),
    ]


def measure(words: int, repeats: int) -> dict[str, Any]:
    """CPU ms a client with a message of so many words."""
    import tensorflow as tf

    from tff_keyboard.models import build_model

    model = build_model("cifg", vocabulary_size=step_lib.VOCABULARY, seed=1)
    rng = np.random.default_rng(words)
    ids = np.full([CLIENTS, words + 2], 2, np.int32)
    ids[:, 0], ids[:, 1:-1] = 1, rng.integers(4, step_lib.VOCABULARY, [CLIENTS, words])
    batch = tf.constant(ids)

    @tf.function
    def alone(batch):
        norms = tf.TensorArray(tf.float32, CLIENTS)
        for k in tf.range(CLIENTS):
            gradients = gradients_alone(model, batch[k : k + 1])
            norms = norms.write(k, tf.linalg.global_norm(gradients))
        return norms.stack()

    @tf.function
    def together(batch):
        activations = activations_together(model, batch)
        norms = tf.TensorArray(tf.float32, CLIENTS)
        for k in tf.range(CLIENTS):
            norms = norms.write(k, tf.linalg.global_norm(gradients_of(activations, k)))
        return norms.stack()

    @tf.function
    def first_part(batch):
        return [
            tf.nn.l2_loss(tf.cast(x, tf.float32))
            for x in activations_together(model, batch).values()
        ]

    np.testing.assert_allclose(alone(batch), together(batch), rtol=1e-4)
    forms = {"alone": alone, "together": together, "first_part": first_part}
    best = dict.fromkeys(forms, np.inf)
    for _ in range(repeats):
        for name, form in forms.items():
            start = time.process_time()
            form(batch)
            best[name] = min(best[name], 1e3 * (time.process_time() - start) / CLIENTS)
    best["weights"] = best["together"] - best.pop("first_part")
    saved = best["alone"] - best["together"]
    return {"words": words, "cpu_ms_a_client": best, "saved_ms_a_client": saved}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--out", type=pathlib.Path, help="JSON file; printed in any case")
    flags = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rows = []
    for words in WORDS:
        rows.append(measure(words, flags.repeats))
        print(json.dumps(rows[-1]), flush=True)
    report = {
        "date": datetime.date.today().isoformat(),
        "commit": step_lib.commit(),
        "clients": CLIENTS,
        "rows": rows,
    }
    if flags.out:
        flags.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
