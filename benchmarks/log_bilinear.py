"""A next-word model so small that a hundred federated trainings of it take minutes: NumPy alone.

    h = E[w_t] A + E[w_{t-1}] B,   logits = h T^T + b,   T = E when tied

Log-bilinear with two words of context (Mnih & Hinton 2007), its table tied unless said. The attack
table and the sweeps train it, because what is studied there are aggregation rules, not models.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV

# E [vocab, dim], A [dim, dim], B [dim, dim], b [vocab], and T [vocab, dim] unless tied; float32
Weights = list[np.ndarray]
_NUM_TIED = 4  # of tensors


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


def initial_weights(vocabulary_size: int, dim: int, seed: int, *, is_tied: bool = True) -> Weights:
    """Small random numbers; those that both forms have are the same."""
    rng = np.random.default_rng(seed)
    shapes = [(vocabulary_size, dim), (dim, dim), (dim, dim), (vocabulary_size,)]
    scales = [0.1, dim**-0.5, dim**-0.5, 0.0]
    if not is_tied:
        shapes.append((vocabulary_size, dim))
        scales.append(0.1)
    return [
        (scale * rng.normal(size=shape)).astype(np.float32)
        for shape, scale in zip(shapes, scales, strict=True)
    ]


def gradient(weights: Weights, batch: Positions) -> tuple[Weights, float]:
    """Of the mean cross-entropy of a batch, and that loss in nats."""
    table, first, second = weights[:3]
    last, before = table[batch.contexts[:, 0]], table[batch.contexts[:, 1]]
    hidden = last @ first + before @ second
    probabilities, loss = _softmax(weights, hidden, batch.targets)
    error = probabilities
    error[np.arange(len(batch)), batch.targets] -= 1
    error /= len(batch)
    to_hidden = error @ _output_table(weights)
    of_output = error.T @ hidden
    is_tied = len(weights) == _NUM_TIED
    of_table = of_output if is_tied else np.zeros_like(table)
    np.add.at(of_table, batch.contexts[:, 0], to_hidden @ first.T)
    np.add.at(of_table, batch.contexts[:, 1], to_hidden @ second.T)
    gradients = [of_table, last.T @ to_hidden, before.T @ to_hidden, error.sum(0)]
    return gradients if is_tied else [*gradients, of_output], loss


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
    hidden = _hidden(weights, data.contexts)
    return _softmax(weights, hidden, data.targets)[1] * len(data)


def evaluate(weights: Weights, data: Positions) -> dict[str, float]:
    """`top_1`: share of words (no specials) that are suggested first, in percent; `perplexity`."""
    if not all(np.all(np.isfinite(w)) for w in weights):
        return {"top_1": 0.0, "perplexity": float("inf")}
    best = suggestions(weights, data.contexts)
    words = data.targets >= NUM_SPECIAL
    hidden = _hidden(weights, data.contexts)
    _, loss = _softmax(weights, hidden, data.targets)
    return {
        "top_1": 100 * float(np.mean(best[words] == data.targets[words])),
        "perplexity": float(np.exp(min(loss, 50.0))),
    }


def suggestions(weights: Weights, contexts: np.ndarray) -> np.ndarray:
    """[n] the word on the strip for each context; specials are never suggested."""
    logits = _hidden(weights, contexts) @ _output_table(weights).T + weights[3]
    logits[:, :NUM_SPECIAL] = -np.inf
    return np.argmax(logits, axis=1)


def _hidden(weights: Weights, contexts: np.ndarray) -> np.ndarray:
    table, first, second = weights[:3]
    return table[contexts[:, 0]] @ first + table[contexts[:, 1]] @ second


def _output_table(weights: Weights) -> np.ndarray:
    return weights[0] if len(weights) == _NUM_TIED else weights[_NUM_TIED]


def _softmax(weights: Weights, hidden: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, float]:
    logits = hidden @ _output_table(weights).T + weights[3]
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    chosen = logits[np.arange(len(targets)), targets]
    return logits, float(-np.mean(np.log(np.maximum(chosen, 1e-30))))
