"""Does `models/base` gain by learning from its own hybrid? Goes on training it, with and without.

    python -m benchmarks.distillation --store=data/reference/base --teacher=hybrid --out=runs/taught

The teacher is the network as shipped with an unpruned 5-gram of the other half of the train
clients: one of the same half would know its text by heart. The loss is half the true word, half the
teacher (`distillation_loss.py`). Without a teacher all is the same but for that half. Adam, whose
rate falls to 0; 64 messages a step. --shares fits the teacher's share on validation people.
"""

import argparse
import pathlib

import numpy as np
import tensorflow as tf

from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models.distillation_loss import soft_softmax_loss
from tff_keyboard.models.layers.packing import pack
from tff_keyboard.models.saved_model import load_model, save_model
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey

BASE = pathlib.Path("models/base/model")
MESSAGES, LONGEST = 64, 30  # of a step, and the most words of each
TRUE_WORD, NETWORK = 0.5, 0.6  # shares of the loss, and of the teacher


def batch_of(messages):
    """[messages, time] int32."""
    return batches._pad([batches._sequence(message, LONGEST) for message in messages])


def ngram_rows(ngram, batch):
    """What an n-gram says at every target, [n, V], packed as the network's rows are."""
    lengths = np.count_nonzero(batch[:, 1:] != PAD, axis=1).astype(np.int32)
    places = pack(lengths, batch.shape[1] - 1).positions.numpy()
    return ngram.probabilities(ngram.context_nodes(batch[:, :-1])[places[:, 0], places[:, 1]])


def network_rows(model):
    """A function of a batch: the network's probabilities [n, V], and the targets."""

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def rows(batch):
        logits, words = model.score(batch[:, :-1], batch[:, 1:])
        return tf.nn.softmax(logits), words

    return rows


def print_shares(store, network, size):
    """Perplexity of every mixture on 300 validation people."""
    ngram = KneserNey.train(store.all_examples("train"), vocabulary_size=size, order=5)
    people = store.client_ids("validation")[:300]
    messages = [m for name in people for m in store.examples("validation", name)[:4]]
    found = []
    for begin in range(0, len(messages), 32):
        batch = batch_of(messages[begin : begin + 32])
        rows, words = (each.numpy() for each in network(batch))
        here = np.arange(len(words)), words
        found.append(np.stack([rows[here], ngram_rows(ngram, batch)[here]]))
    of_network, of_ngram = np.concatenate(found, axis=1)
    for share in np.linspace(0, 1, 11):
        mixed = share * of_network + (1 - share) * of_ngram
        print(f"{share:.1f} {np.exp(-np.log(mixed + 1e-12).mean()):.2f}")


def main():
    """Trains a model, or prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--teacher", choices=("none", "hybrid"), default="none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--words", type=int, default=600_000)
    parser.add_argument("--shares", action="store_true")
    flags = parser.parse_args()
    store = ClientStore(flags.store)
    (model, vocabulary), (frozen, _) = load_model(BASE), load_model(BASE)
    size, network = len(vocabulary), network_rows(frozen)
    if flags.shares:
        print_shares(store, network, size)
        return
    people = store.client_ids("train")
    halves = [[m for name in people[h::2] for m in store.examples("train", name)] for h in (0, 1)]
    has_teacher = flags.teacher == "hybrid"
    ngrams = [
        KneserNey.train(halves[1 - half], vocabulary_size=size, order=5) if has_teacher else None
        for half in (0, 1)
    ]
    optimizer, variables = tf.keras.optimizers.Adam(flags.rate), model.trainable_variables
    true_weight = TRUE_WORD if has_teacher else 1.0

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, size], tf.float32),
            tf.TensorSpec([], tf.float32),
        ]
    )
    def step(batch, soft_labels, rate):
        with tf.GradientTape() as tape:
            hidden, table, bias, words = model.packed_hidden_at_targets(
                batch[:, :-1], batch[:, 1:], True
            )
            losses, true_losses, _ = soft_softmax_loss(
                hidden, table, bias, words, soft_labels, true_weight
            )
            loss = tf.reduce_mean(losses)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
        optimizer.learning_rate.assign(rate)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return tf.reduce_mean(true_losses)

    rng = np.random.default_rng(flags.seed)
    orders = [rng.permutation(len(half)) for half in halves]
    done, number, losses = 0, 0, []
    while done < flags.words:
        half, begin = number % 2, number // 2 * MESSAGES
        batch = batch_of([halves[half][m] for m in orders[half][begin : begin + MESSAGES]])
        words = np.count_nonzero(batch[:, 1:] != PAD)
        soft_labels = np.zeros([words, size], np.float32)
        if has_teacher:
            soft_labels = (1 - NETWORK) * ngram_rows(ngrams[half], batch)
            soft_labels += NETWORK * network(batch)[0].numpy()
        rate = flags.rate * (1 - done / flags.words)
        losses.append(float(step(batch, soft_labels, rate)))
        done, number = done + words, number + 1
        if number % 100 == 0:
            print(f"{done} words, loss {np.mean(losses[-100:]):.4f}", flush=True)
    save_model(flags.out, model, vocabulary)


if __name__ == "__main__":
    main()
