"""A next-word model so small that a hundred federated trainings of it take minutes: NumPy alone.

    h = E[w_t] A + E[w_{t-1}] B,   logits = h E^T + b

Log-bilinear with two words of context and a tied table (Mnih & Hinton 2007). The attack table
trains it, because what is studied there are aggregation rules, not models.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV

Weights = list[np.ndarray]  # E [vocab, dim], A [dim, dim], B [dim, dim], b [vocab]; float32


@dataclasses.dataclass(frozen=True)
class Positions:
    """What to predict from what: `contexts` [n, 2] (the last word first), `targets` [n], int32."""

    contexts: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)


def positions(messages: Sequence[np.ndarray], vocabulary_size: int, *, most: int) -> Positions:
    """Of the messages' words, in order, at most `most`; ids above the vocabulary become OOV."""
    contexts, targets = [], []
    for message in messages:
        ids = np.where(message < vocabulary_size, message, OOV)
        line = np.concatenate([[BOS, BOS], ids, [EOS]])
        contexts.append(np.stack([line[1:-1], line[:-2]], axis=1))
        targets.append(line[2:])
        if sum(map(len, targets)) >= most:
            break
    return Positions(
        np.concatenate(contexts)[:most].astype(np.int32),
        np.concatenate(targets)[:most].astype(np.int32),
    )


def initial_weights(vocabulary_size: int, dim: int, seed: int) -> Weights:
    """Small random numbers."""
    rng = np.random.default_rng(seed)
    shapes = [(vocabulary_size, dim), (dim, dim), (dim, dim), (vocabulary_size,)]
    scales = [0.1, dim**-0.5, dim**-0.5, 0.0]
    return [
        (scale * rng.normal(size=shape)).astype(np.float32)
        for shape, scale in zip(shapes, scales, strict=True)
    ]


def gradient(weights: Weights, batch: Positions) -> tuple[Weights, float]:
    """Of the mean cross-entropy of a batch, and that loss in nats."""
    table, first, second, _ = weights
    last, before = table[batch.contexts[:, 0]], table[batch.contexts[:, 1]]
    hidden = last @ first + before @ second
    probabilities, loss = _softmax(weights, hidden, batch.targets)
    error = probabilities
    error[np.arange(len(batch)), batch.targets] -= 1
    error /= len(batch)
    to_hidden = error @ table
    of_table = error.T @ hidden
    np.add.at(of_table, batch.contexts[:, 0], to_hidden @ first.T)
    np.add.at(of_table, batch.contexts[:, 1], to_hidden @ second.T)
    return [of_table, last.T @ to_hidden, before.T @ to_hidden, error.sum(0)], loss


def train(
    weights: Weights, data: Positions, *, learning_rate: float, batch_size: int, epochs: int = 1
) -> tuple[Weights, float]:
    """SGD in order, gradients clipped to norm 1: the delta new - old, and the mean loss."""
    now = [w.copy() for w in weights]
    losses = []
    for _ in range(epochs):
        for start in range(0, len(data), batch_size):
            part = slice(start, start + batch_size)
            grads, loss = gradient(now, Positions(data.contexts[part], data.targets[part]))
            losses.append(loss)
            norm = float(np.sqrt(sum(np.sum(np.square(g)) for g in grads)))
            rate = np.float32(learning_rate * min(1.0, 1.0 / max(norm, 1e-30)))
            for w, g in zip(now, grads, strict=True):
                w -= rate * g
    return [n - w for n, w in zip(now, weights, strict=True)], float(np.mean(losses))


def loss_of(weights: Weights, data: Positions) -> float:
    """Sum of the cross-entropies, nats; infinite where a weight is not finite."""
    if not all(np.all(np.isfinite(w)) for w in weights):
        return float("inf")
    table, first, second, _ = weights
    hidden = table[data.contexts[:, 0]] @ first + table[data.contexts[:, 1]] @ second
    return _softmax(weights, hidden, data.targets)[1] * len(data)


def evaluate(weights: Weights, data: Positions) -> dict[str, float]:
    """`top_1`: share of words (no specials) that are suggested first, in percent; `perplexity`."""
    if not all(np.all(np.isfinite(w)) for w in weights):
        return {"top_1": 0.0, "perplexity": float("inf")}
    best = suggestions(weights, data.contexts)
    words = data.targets >= NUM_SPECIAL
    table, first, second, _ = weights
    hidden = table[data.contexts[:, 0]] @ first + table[data.contexts[:, 1]] @ second
    _, loss = _softmax(weights, hidden, data.targets)
    return {
        "top_1": 100 * float(np.mean(best[words] == data.targets[words])),
        "perplexity": float(np.exp(min(loss, 50.0))),
    }


def suggestions(weights: Weights, contexts: np.ndarray) -> np.ndarray:
    """[n] the word on the strip for each context; specials are never suggested."""
    table, first, second, bias = weights
    hidden = table[contexts[:, 0]] @ first + table[contexts[:, 1]] @ second
    logits = hidden @ table.T + bias
    logits[:, :NUM_SPECIAL] = -np.inf
    return np.argmax(logits, axis=1)


def _softmax(weights: Weights, hidden: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, float]:
    logits = hidden @ weights[0].T + weights[3]
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    chosen = logits[np.arange(len(targets)), targets]
    return logits, float(-np.mean(np.log(np.maximum(chosen, 1e-30))))
