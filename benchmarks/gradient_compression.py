r"""Several epochs on a node or Deep Gradient Compression: Popov et al. 2018, Table 5, in small.

    python -m benchmarks.gradient_compression --store=data/wikitext2_part/store --out=table5.jsonl \
        --strategy=epochs --rates 4 --halve-every=6 --seeds 1 2 3
    (--strategy=dgc --rates 12.8 --share=0.01; --strategy=sgd --rates 1.2; --halve-every=4)

Four nodes share the text of a client store. Popov et al. print DGC's row from Lin et al. 2017; here
both strategies and plain SGD are trained, from the same initial weights, to a flat curve:

- epochs: a first round in which the model goes from node to node, then averaging; the epochs on a
  node and the rate fall from round to round (section 3.2).
- dgc: a gradient of each node a step, cut to its share of a norm, with momentum correction,
  residuals, and the momentum of what is sent set to 0; of each tensor the largest are sent, a
  --share, more in the first epochs (https://arxiv.org/abs/1712.01887, Algorithm 4).
- sgd: the same steps, all of each gradient sent; the momentum is the server's.

A value sent takes 6 bytes, 4 of its number and 2 of the gap to the last one, or 4 where all are.
"""

import argparse
import json
import pathlib

import numpy as np
import tensorflow as tf

from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models.registry import build_model
from tff_keyboard.models.softmax_loss import softmax_loss

NODES, MESSAGES, LONGEST = 4, 20, 20  # a step has 20 messages of each node
CLIP, MOMENTUM = 1.0, 0.9
WARM_UP = (0.25, 0.0625, 0.015625, 0.004)  # shares sent in the first epochs
FLAT, LOOK_BACK = 0.002, 4  # a curve is flat where four looks gain less than 0.2 %


class Trainer:
    """A model and the functions of its text."""

    def __init__(self, store, seed):
        self.size = len(store.vocabulary.words)
        self.model = build_model(
            "lstm2", vocabulary_size=self.size, seed=seed, units=128, embedding_size=64, tied=True
        )
        self.variables = self.model.trainable_variables
        shards = [store.examples("train", name) for name in store.client_ids("train")]
        self.nodes = [[m for shard in shards[n::NODES] for m in shard] for n in range(NODES)]
        self.texts = {
            name: [store.examples(name, client) for client in store.client_ids(name)]
            for name in ("validation", "held_out")
        }
        self.steps = min(len(node) for node in self.nodes) // MESSAGES  # of an epoch
        self.uploads, self.bytes = 0, 0  # of one node

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def losses(self, batch):
        hidden, table, bias, words = self.model.packed_hidden_at_targets(
            batch[:, :-1], batch[:, 1:], False
        )
        return tf.reduce_sum(softmax_loss(hidden, table, bias, words)[0]), tf.size(words)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def gradients(self, batch):
        with tf.GradientTape() as tape:
            hidden, table, bias, words = self.model.packed_hidden_at_targets(
                batch[:, :-1], batch[:, 1:], True
            )
            loss = tf.reduce_mean(softmax_loss(hidden, table, bias, words)[0])
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, self.variables)]

    def gradient(self, node, rows):
        """Of some messages of a node; NumPy."""
        batch = batch_of([self.nodes[node][row] for row in rows])
        return [g.numpy() for g in self.gradients(batch)]

    def assign(self, weights):
        for variable, value in zip(self.variables, weights, strict=True):
            variable.assign(value)

    def weights(self):
        return [v.numpy() for v in self.variables]

    def perplexities(self, population):
        """Nats and words of each client."""
        found = []
        for messages in self.texts[population]:
            sums = [
                self.losses(batch_of(messages[b : b + 64])) for b in range(0, len(messages), 64)
            ]
            found.append([float(sum(s[0] for s in sums)), int(sum(s[1] for s in sums))])
        return np.array(found)

    def perplexity(self, population):
        nats, words = self.perplexities(population).sum(axis=0)
        return float(np.exp(nats / words))


def batch_of(messages):
    """[messages, time] int32."""
    return batches._pad([batches._sequence(message, LONGEST) for message in messages])


def cut(gradient, most):
    """The gradient of norm `most` at most, over all tensors."""
    norm = np.sqrt(sum(float(np.vdot(g, g)) for g in gradient))
    return [g * np.float32(min(1.0, most / max(norm, 1e-12))) for g in gradient]


def largest(values, share):
    """Where a tensor is among its largest, at least one place."""
    sizes = np.abs(values).ravel()
    count = max(1, round(share * sizes.size))
    chosen = np.zeros(sizes.size, bool)
    chosen[np.argpartition(sizes, sizes.size - count)[-count:]] = True
    return chosen.reshape(values.shape)


class Sgd:
    """Plain gradients: a step's mean, momentum at the server."""

    def __init__(self, weights, share):
        del share
        self.momenta = [np.zeros_like(w) for w in weights]

    def sent(self, gradients, epoch):
        del epoch
        mean = [np.mean(tensors, axis=0) for tensors in zip(*gradients, strict=True)]
        mean = cut(mean, CLIP)
        self.momenta = [MOMENTUM * m + g for m, g in zip(self.momenta, mean, strict=True)]
        return self.momenta, sum(4 * m.size for m in mean)


class Dgc:
    """Lin et al., Algorithm 4: u and v of each node."""

    def __init__(self, weights, share):
        self.share = share
        self.u = [[np.zeros_like(w) for w in weights] for _ in range(NODES)]
        self.v = [[np.zeros_like(w) for w in weights] for _ in range(NODES)]

    def sent(self, gradients, epoch):
        share = max(self.share, WARM_UP[epoch] if epoch < len(WARM_UP) else 0)
        total, count = [np.zeros_like(g) for g in gradients[0]], 0
        for node, gradient in enumerate(gradients):
            for i, g in enumerate(cut(gradient, CLIP / NODES**0.5)):
                u, v = self.u[node][i], self.v[node][i]
                u *= MOMENTUM
                u += g
                v += u
                chosen = largest(v, share)
                total[i][chosen] += v[chosen] / NODES
                u[chosen] = 0
                v[chosen] = 0
                count += chosen.sum()
        return total, 6 * int(count) // NODES


def steps(trainer, strategy, share, rate, seed):
    """An epoch a turn."""
    rng = np.random.default_rng(seed)
    exchange = strategy(trainer.weights(), share)
    for epoch in range(200):
        orders = [rng.permutation(len(node)) for node in trainer.nodes]
        for number in range(trainer.steps):
            part = slice(number * MESSAGES, (number + 1) * MESSAGES)
            gradients = [trainer.gradient(n, orders[n][part]) for n in range(NODES)]
            change, sent = exchange.sent(gradients, epoch)
            for variable, c in zip(trainer.variables, change, strict=True):
                variable.assign_sub(np.float32(rate(epoch)) * c)
            trainer.uploads += 1
            trainer.bytes += sent
        yield


def epochs(trainer, rate, seed, counts):
    """A round a turn: the first from node to node, then averaging; `counts` epochs a node."""
    rng = np.random.default_rng(seed)

    def train(node, epochs, step):
        for _ in range(epochs):
            order = rng.permutation(len(trainer.nodes[node]))
            for begin in range(0, trainer.steps * MESSAGES, MESSAGES):
                gradient = cut(trainer.gradient(node, order[begin : begin + MESSAGES]), CLIP)
                for variable, g in zip(trainer.variables, gradient, strict=True):
                    variable.assign_sub(np.float32(step) * g)

    size = sum(4 * v.shape.num_elements() for v in trainer.variables)
    for number in range(60):
        count, step = counts(number), rate(number)
        before, ends = trainer.weights(), []
        for node in range(NODES):
            if number:
                trainer.assign(before)
            train(node, count, step)
            ends.append(trainer.weights())
        if number:
            trainer.assign([np.mean(tensors, axis=0) for tensors in zip(*ends, strict=True)])
        trainer.uploads += 1
        trainer.bytes += size
        yield


def halving(rate, every):
    return lambda number: rate * 0.5 ** (number // every)


def train(strategy, store, share, rate, every, seed):
    """To a flat curve; JSON values of the best round on validation clients."""
    trainer = Trainer(store, seed)
    falls = halving(rate, every)
    if strategy == "epochs":
        turns = epochs(trainer, falls, seed, lambda number: max(1, 5 - number))
    else:
        turns = steps(trainer, {"dgc": Dgc, "sgd": Sgd}[strategy], share, falls, seed)
    curve, best = [], None
    for _ in turns:
        curve.append(trainer.perplexity("validation"))
        if curve[-1] <= min(curve):
            best = trainer.weights(), trainer.uploads, trainer.bytes
        if len(curve) > 2 * LOOK_BACK and min(curve) > min(curve[:-LOOK_BACK]) * (1 - FLAT):
            break
        if not curve[-1] < 1e5:
            break
    trainer.assign(best[0])
    people = trainer.perplexities("held_out")
    return {
        "strategy": strategy,
        "rate": rate,
        "share": share if strategy == "dgc" else 1.0,
        "halved_every": every,
        "seed": seed,
        "parameters": sum(v.shape.num_elements() for v in trainer.variables),
        "validation": [round(each, 2) for each in curve],
        "perplexity": round(float(np.exp(people[:, 0].sum() / people[:, 1].sum())), 2),
        "uploads": best[1],
        "megabytes": round(best[2] / 1e6, 2),
        "nats": people[:, 0].round(3).tolist(),
        "words": people[:, 1].astype(int).tolist(),
    }


def main():
    """Trains what is asked for and appends a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--strategy", choices=("epochs", "dgc", "sgd"), required=True)
    parser.add_argument("--rates", type=float, nargs="+", required=True)
    parser.add_argument("--share", type=float, default=0.001, help="of values sent, in the end")
    parser.add_argument("--halve-every", type=int, default=4, help="epochs, or rounds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    flags = parser.parse_args()
    store = ClientStore(flags.store)
    for seed in flags.seeds:
        for rate in flags.rates:
            found = train(flags.strategy, store, flags.share, rate, flags.halve_every, seed)
            with flags.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
            shown = {k: v for k, v in found.items() if k not in ("nats", "words")}
            print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
