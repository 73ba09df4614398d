"""The federated round of `tff_keyboard_lab/benchmarks/round/round.py` in JAX.

It runs in its own Python with jax and NumPy (`--fedjax` also needs fedjax), and imports nothing of
this project. Like torch_loop.py, it answers each line of stdin with a line of JSON: seconds, loss
after the round.

It is the loop that a user of JAX would write: a jitted SGD step, clients distributed over the
devices, a thread for each device. `--devices=2` makes two devices of the CPU, each with one thread,
which is faster than one device with two threads. Batches are padded to few shapes, because each
shape is compiled: time to a multiple of 4, real targets to a multiple of 32, rows to the largest
batch. `--fedjax` is FedJAX's `for_each_client` with its jit backend, which compiles one shape.
"""

import argparse
import functools
import json
import os
import sys
import threading
import time
from typing import NamedTuple

import numpy as np

_TIME, _TARGETS = 4, 32  # multiples to which shapes are rounded up


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help=".npz with weights and batches, from round.py")
    parser.add_argument("--devices", type=int, default=1, help="devices of the CPU")
    parser.add_argument("--fedjax", action="store_true", help="use FedJAX instead of a loop")
    return parser.parse_args()


FLAGS = parse()
if FLAGS.devices > 1:  # read by JAX when it is imported
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={FLAGS.devices} --xla_cpu_multi_thread_eigen=false"
    )
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

tree_map = jax.tree_util.tree_map


class Batch(NamedTuple):
    """A padded batch.

    Attributes:
      ids: [rows, time] int32.
      positions: [targets] int32, positions of the real targets in [rows * time].
      targets: [targets] int32.
      is_real: [targets] float32, 0 at padding.
    """

    ids: np.ndarray
    positions: np.ndarray
    targets: np.ndarray
    is_real: np.ndarray


def rounded_up(number, multiple):
    return -(-number // multiple) * multiple


def shape_of(batch):
    """Returns the padded time and number of targets of a [rows, time + 1] batch."""
    targets = int(np.count_nonzero(batch[:, 1:]))
    return rounded_up(batch.shape[1] - 1, _TIME), rounded_up(targets, _TARGETS)


def padded(batch, rows, time_steps, num_targets):
    """Returns a batch with rows, columns and targets padded to the given numbers."""
    ids = np.zeros((rows, time_steps + 1), np.int32)
    ids[: batch.shape[0], : batch.shape[1]] = batch
    row, column = np.nonzero(ids[:, 1:])
    padding = (0, num_targets - len(row))
    return Batch(
        ids[:, :-1],
        np.pad((row * time_steps + column).astype(np.int32), padding),
        np.pad(ids[row, column + 1], padding),
        np.pad(np.ones(len(row), np.float32), padding),
    )


def at_targets(hidden, batch):
    """Returns the rows of [time, rows, dim] at the real targets, [targets, dim]."""
    return hidden.swapaxes(0, 1).reshape(-1, hidden.shape[-1])[batch.positions]


def cifg_logits(weights, batch):
    """Returns the logits at the real targets, [targets, vocabulary]."""
    embedding, kernel, recurrent_kernel, bias, projection = weights
    units, dim = projection.shape
    pre = embedding[batch.ids] @ kernel + bias

    def step(state, pre_of_step):
        r, c = state
        i, g, o = jnp.split(pre_of_step + r @ recurrent_kernel, 3, axis=1)
        i = jax.nn.sigmoid(i)
        c = (1.0 - i) * c + i * jnp.tanh(g)
        r = (jax.nn.sigmoid(o) * jnp.tanh(c)) @ projection
        return (r, c), r

    rows = len(batch.ids)
    start = (jnp.zeros((rows, dim)), jnp.zeros((rows, units)))
    _, hidden = jax.lax.scan(step, start, pre.swapaxes(0, 1))
    return at_targets(hidden, batch) @ embedding.T


def gru_logits(weights, batch):
    """Returns the logits of the Keras GRU of `own_models.py`; see `cifg_logits`."""
    embedding, kernel, recurrent_kernel, bias, narrow, narrow_bias, wide, wide_bias = weights
    pre = embedding[batch.ids] @ kernel + bias[0]

    def step(state, pre_of_step):
        z, r, new = jnp.split(pre_of_step, 3, axis=1)
        state_z, state_r, state_new = jnp.split(state @ recurrent_kernel + bias[1], 3, axis=1)
        z, r = jax.nn.sigmoid(z + state_z), jax.nn.sigmoid(r + state_r)
        state = z * state + (1.0 - z) * jnp.tanh(new + r * state_new)
        return state, state

    start = jnp.zeros((len(batch.ids), recurrent_kernel.shape[0]))
    _, hidden = jax.lax.scan(step, start, pre.swapaxes(0, 1))
    return (at_targets(hidden, batch) @ narrow + narrow_bias) @ wide + wide_bias


LOGITS = {"cifg": cifg_logits, "gru": gru_logits}


def loss_of(weights, batch, model):
    """Returns the mean loss over the real targets, in nats. `model` is a key of `LOGITS`."""
    logits = LOGITS[model](weights, batch)
    of_targets = jnp.take_along_axis(logits, batch.targets[:, None], axis=1)[:, 0]
    losses = jax.nn.logsumexp(logits, axis=1) - of_targets
    return (losses * batch.is_real).sum() / jnp.maximum(batch.is_real.sum(), 1.0)


def sgd(weights, batch, learning_rate, model):
    gradients = jax.grad(loss_of)(weights, batch, model)
    return tree_map(lambda w, g: w - learning_rate * g, weights, gradients)


def build_loop(clients, sizes, step):
    """Returns a function of the weights that computes a round on all devices."""
    first_step = jax.jit(step)
    next_step = jax.jit(step, donate_argnums=0)

    @functools.partial(jax.jit, donate_argnums=0)
    def add(sums, weights, size):
        return tree_map(lambda s, w: s + size * w, sums, weights)

    devices = jax.devices()

    def train(number, weights, results):
        """Trains the clients of device `number`, and stores the sum of their weights."""
        with jax.default_device(devices[number]):
            here = jax.device_put(weights, devices[number])
            sums = tree_map(jnp.zeros_like, here)
            for client in range(number, len(clients), len(devices)):
                batches = clients[client]
                trained = first_step(here, batches[0])
                for batch in batches[1:]:
                    trained = next_step(trained, batch)
                sums = add(sums, trained, sizes[client])
            results[number] = jax.block_until_ready(sums)

    def one_round(weights):
        results: dict[int, tuple] = {}
        threads = [
            threading.Thread(target=train, args=(number, weights, results))
            for number in range(len(devices))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sums = [jax.device_put(part, devices[0]) for part in results.values()]
        return tree_map(lambda *parts: sum(parts) / sum(sizes), *sums)

    return one_round


def build_fedjax_round(clients, sizes, step):
    """Returns the round as FedJAX's `for_each_client`, and the weighted mean in Python."""
    import fedjax

    for_each_client = fedjax.for_each_client(
        lambda weights, key: weights,
        step,
        lambda weights, trained: trained,
    )
    data = [(number, batches, jax.random.PRNGKey(0)) for number, batches in enumerate(clients)]

    def one_round(weights):
        sums = tree_map(jnp.zeros_like, weights)
        for number, trained in for_each_client(weights, data):
            sums = tree_map(lambda s, w, n=sizes[number]: s + n * w, sums, trained)
        return tree_map(lambda s: s / sum(sizes), sums)

    return one_round


def main():
    with np.load(FLAGS.file) as file:
        model = str(file["model"])
        num_weights = sum(name.startswith("weight_") for name in file)
        weights = tuple(jnp.asarray(file[f"weight_{n}"]) for n in range(num_weights))
        arrays = [
            [file[f"batch_{client}_{n}"] for n in range(int(count))]
            for client, count in enumerate(file["batches_of_client"])
        ]
        learning_rate = float(file["learning_rate"])
    sizes = [float(sum(len(batch) for batch in client)) for client in arrays]
    rows = max(len(batch) for client in arrays for batch in client)
    shapes = {shape_of(batch) for client in arrays for batch in client}
    largest = tuple(max(shape[side] for shape in shapes) for side in range(2))
    clients = [
        [padded(batch, rows, *(largest if FLAGS.fedjax else shape_of(batch))) for batch in client]
        for client in arrays
    ]
    build = build_fedjax_round if FLAGS.fedjax else build_loop
    one_round = build(
        clients, sizes, functools.partial(sgd, learning_rate=learning_rate, model=model)
    )

    @jax.jit
    def sum_of_losses(weights, batch):
        return loss_of(weights, batch, model) * batch.is_real.sum()

    def mean_loss(weights):
        batches = [batch for client in clients for batch in client]
        total = sum(float(sum_of_losses(weights, batch)) for batch in batches)
        return total / sum(float(batch.is_real.sum()) for batch in batches)

    after, loss = jax.block_until_ready(one_round(weights)), None  # compiles
    for _ in sys.stdin:
        start = time.perf_counter()
        after = jax.block_until_ready(one_round(weights))
        seconds = time.perf_counter() - start
        loss = mean_loss(after) if loss is None else loss
        answer = {"seconds": seconds, "loss": loss, "version": jax.__version__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
