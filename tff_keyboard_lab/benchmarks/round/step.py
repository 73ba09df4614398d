"""Times one training step: plain Keras against the packed, hand-differentiated model.

python -m tff_keyboard_lab.benchmarks.round.step --threads=1 --out=step.json

Both are the CIFG of Hard et al. at V = 10,000 with the same initial weights, the same batches and
plain SGD, compiled once with unknown batch and time. "keras" is the code of a TFF tutorial:
`Embedding(mask_zero)`, `RNN(cell)`, logits at every padded position, sparse cross-entropy, a mask.
Rounds of the two are interleaved, so that other load on the machine affects both; look at the
ratio. `losses_agree` is the largest relative difference of the losses over all steps of a first
pass.

`--autodiff` adds "autodiff": the same packed model, but TensorFlow differentiates the loop over
time, without the gradient written by hand. `packed_over_autodiff` is the gain of the latter. (A
round also computes the first step of all clients of a pack together, which needs the factors of
that gradient: `benchmarks/round/own_models.py` measures both in rounds.)

CPU seconds count every thread of this process: on a shared machine they are steadier than wall
time. The GEMM peak (fp32, 1024 x 1024) is measured in the same run; a real token needs
2 * 3 * (parameters multiplied with) = 8.4 MFLOP forward and backward.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import time

import numpy as np

from tff_keyboard_lab.tools.checkout import commit

VOCABULARY = 10_000
UNITS, DIM = 670, 96
FLOP_PER_TOKEN = 2 * 3 * (VOCABULARY * DIM + 2 * DIM * 3 * UNITS + UNITS * DIM)
LEARNING_RATE = 0.1


def make_batches(num_batches, batch_size, longest, seed, sort_by_length):
    """Returns arrays [batch, time + 1] with the lengths of short messages (mean 11 words, cut)."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.geometric(1 / 11, num_batches * batch_size), 2, longest)
    if sort_by_length:
        lengths = np.sort(lengths)
    batches = []
    for chunk in lengths.reshape(num_batches, batch_size):
        batch = np.zeros([batch_size, chunk.max() + 1], np.int32)
        for row, length in zip(batch, chunk, strict=True):
            words = np.minimum(4 + rng.zipf(1.3, length - 1), VOCABULARY - 1)
            row[: length + 1] = [1, *words, 2]
        batches.append(batch)
    return batches


def keras_step(initial_weights):
    """Returns the textbook model and step: batch -> mean loss, after one SGD update."""
    import tensorflow as tf

    class Cell(tf.keras.layers.Layer):
        """One step of the CIFG as a Keras cell, with the state r, c."""

        def __init__(self):
            super().__init__()
            self.state_size = [DIM, UNITS]
            self.output_size = DIM

        def build(self, shape):
            self.kernel = self.add_weight("kernel", [shape[-1], 3 * UNITS])
            self.recurrent_kernel = self.add_weight("recurrent_kernel", [DIM, 3 * UNITS])
            self.bias = self.add_weight("bias", [3 * UNITS])
            self.projection = self.add_weight("projection", [UNITS, DIM])

        def call(self, inputs, states):
            r, c = states
            gates = inputs @ self.kernel + r @ self.recurrent_kernel + self.bias
            i, g, o = tf.split(gates, 3, axis=-1)
            i, g, o = tf.sigmoid(i), tf.tanh(g), tf.sigmoid(o)
            c = (1.0 - i) * c + i * g
            r = (o * tf.tanh(c)) @ self.projection
            return r, [r, c]

    embedding = tf.keras.layers.Embedding(VOCABULARY, DIM, mask_zero=True)
    rnn = tf.keras.layers.RNN(Cell(), return_sequences=True)
    rnn(embedding(tf.ones([1, 1], tf.int32)))
    weights = [*embedding.trainable_variables, *rnn.trainable_variables]
    for variable, value in zip(weights, initial_weights, strict=True):
        variable.assign(value)
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="none"
    )

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def step(batch):
        ids, targets = batch[:, :-1], batch[:, 1:]
        with tf.GradientTape() as tape:
            hidden = rnn(embedding(ids), mask=embedding.compute_mask(ids))
            logits = tf.matmul(hidden, embedding.embeddings, transpose_b=True)
            real = tf.cast(tf.not_equal(targets, 0), tf.float32)
            losses = cross_entropy(targets, logits) * real
            loss = tf.reduce_sum(losses) / tf.reduce_sum(real)
        for variable, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            variable.assign_sub(LEARNING_RATE * tf.convert_to_tensor(gradient))
        return loss

    return step


def autodiff_cifg_class():
    """Returns the class of our CIFG without its gradient, which TensorFlow computes instead."""
    from tff_keyboard.models.cifg import Cifg
    from tff_keyboard.models.recurrent_model import RecurrentModel

    class AutodiffCifg(Cifg):
        packed_hidden_and_table = RecurrentModel.packed_hidden_and_table

    return AutodiffCifg


def packed_step(model, clip_norm=None):
    """Returns our step: batch -> mean loss, after one SGD update."""
    import tensorflow as tf

    from tff_keyboard.algorithms.optimizers.local_sgd import LocalSgd
    from tff_keyboard.models.softmax_loss import softmax_loss

    weights = model.trainable_variables
    sgd = LocalSgd(LEARNING_RATE, clip_norm)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def step(batch):
        with tf.GradientTape() as tape:
            hidden, table, bias, targets = model.packed_hidden_at_targets(
                batch[:, :-1], batch[:, 1:], True
            )
            loss = tf.reduce_mean(softmax_loss(hidden, table, bias, targets)[0])
        sgd.update(sgd.initialize(None), weights, tape.gradient(loss, weights))
        return loss

    return step


def gemm_peak(repeats=15):
    """Returns the best GFLOP/s of a 1024 x 1024 fp32 product in this process, in wall time."""
    import tensorflow as tf

    matrix = tf.random.normal([1024, 1024])
    product = tf.function(lambda x: tf.matmul(x, x))
    product(matrix)
    best = 0.0
    for _ in range(repeats):
        start = time.perf_counter()
        product(matrix).numpy()
        best = max(best, 2 * 1024**3 / (time.perf_counter() - start))
    return best / 1e9


def compare(steps, batches, repeats):
    """Runs interleaved passes over the batches, and returns median speeds in tokens/s."""
    tokens = sum(int(np.count_nonzero(batch[:, 1:])) for batch in batches)
    wall: dict[str, list[float]] = {name: [] for name in steps}
    cpu: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            for batch in batches:
                loss = step(batch)
            loss.numpy()
            wall[name].append(tokens / (time.perf_counter() - start))
            cpu[name].append(tokens / (time.process_time() - start_cpu))
    ratios = {
        f"packed_over_{name}": float(
            np.median([b / a for a, b in zip(speeds, wall["packed"], strict=True)])
        )
        for name, speeds in wall.items()
        if name != "packed"
    }
    return {
        "tokens_per_pass": tokens,
        "fill": tokens / sum(batch[:, 1:].size for batch in batches),
        "tokens_per_second": {name: float(np.median(v)) for name, v in wall.items()},
        "best_tokens_per_second": {name: max(v) for name, v in wall.items()},
        "tokens_per_cpu_second": {name: float(np.median(v)) for name, v in cpu.items()},
        **ratios,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="intra-op and inter-op threads")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--longest", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--autodiff", action="store_true", help="time automatic differentiation")
    parser.add_argument("--out", type=pathlib.Path, help="write the result to this JSON file, too")
    flags = parser.parse_args()

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    from tff_keyboard.models import build_model

    tf.config.threading.set_intra_op_parallelism_threads(flags.threads)
    tf.config.threading.set_inter_op_parallelism_threads(flags.threads)
    model = build_model("cifg", vocabulary_size=VOCABULARY, seed=flags.seed)
    steps = {
        "keras": keras_step([v.numpy() for v in model.trainable_variables]),
        "packed": packed_step(model),
    }
    if flags.autodiff:
        other = autodiff_cifg_class()(vocabulary_size=VOCABULARY, seed=flags.seed)
        steps["autodiff"] = packed_step(other)
    shape = (flags.batches, flags.batch_size, flags.longest, flags.seed)
    mixed, alike = (make_batches(*shape, sort_by_length=sort) for sort in (False, True))

    differences = []
    for batch in mixed:  # also compiles both
        losses = [float(step(batch)) for step in steps.values()]
        differences.append((max(losses) - min(losses)) / losses[0])
    result = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "tensorflow": tf.__version__,
        "threads": flags.threads,
        "losses_agree": max(differences),
        "gemm_peak_gflops": gemm_peak(),
        "mixed_lengths": compare(steps, mixed, flags.repeats),
        "sorted_by_length": compare(steps, alike, flags.repeats),
    }
    peak = max(result["gemm_peak_gflops"], gemm_peak())  # twice: other load may have hit the first
    result["gemm_peak_gflops"] = peak
    best = result["mixed_lengths"]["best_tokens_per_second"]["packed"]
    result["share_of_gemm_peak"] = best * FLOP_PER_TOKEN / 1e9 / peak
    text = json.dumps(result, indent=2)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
