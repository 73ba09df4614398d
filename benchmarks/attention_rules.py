"""The papers' aggregation rules in NumPy, for the sweeps of `attention_sweeps.py`.

Each takes the server's weights and a round's deltas (client minus server) and gives the step of the
server. A test holds them against the factories that trainings use. FedAtt: Ji et al. 2019, eqs. 2-4
and 6; FedMed: Wu et al. 2020, eqs. 2-9.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

Tensors = list[np.ndarray]

RULES = ("fedsgd", "fedavg", "fedavg_epsilon", "fedatt", "fedmed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule and what it can be told.

    Attributes:
      name: One of `RULES`. "fedsgd" and "fedavg" weigh clients by words and step by 1; the others
        weigh them alike, or by themselves, and step by `epsilon`. FedSGD's deltas are steps of one
        gradient, over all words of a client and cut before the words weigh it.
      epsilon: Step of the server.
      temperature: Of FedAtt's softmax; 1 is the paper's.
      norm: FedAtt's: "2", or "spectral" for matrices as in the authors' code.
      noise: Standard deviation of what each client adds, eq. 6; 0 for none.
      threshold: FedMed's mediation, nats; 0 is always adaptive.
      top: FedMed's share of clients, those of lowest loss.
    """

    name: str
    epsilon: float = 1.2
    temperature: float = 1.0
    norm: str = "2"
    noise: float = 0.0
    threshold: float = 0.1
    top: float = 1.0


@dataclasses.dataclass(frozen=True)
class Step:
    """What a round does.

    Attributes:
      deltas: To be added to the server's weights.
      adaptive: Whether FedMed used its adaptive weights.
      effective_clients: exp of the attention's entropy, mean over layers.
    """

    deltas: Tensors
    adaptive: bool
    effective_clients: float


def step(
    rule: Rule,
    weights: Tensors,
    deltas: Sequence[Tensors],
    words: Sequence[float],
    losses: Sequence[float],
    loss_before: float | None,
    rng: np.random.Generator,
) -> Step:
    """One round of a rule.

    Args:
      rule: Which.
      weights: Of the server.
      deltas: Of each client.
      words: Each client trained on.
      losses: Local losses of the clients, nats.
      loss_before: Their mean in the round before; None in the first.
      rng: Of the noise.
    """
    if rule.noise:
        deltas = [[d + rng.normal(0, rule.noise, d.shape) for d in each] for each in deltas]
    count, layers = len(deltas), len(weights)
    by_words = np.asarray(words, np.float64) / np.sum(words)
    shares = np.full((layers, count), 1 / count)
    size, adaptive = rule.epsilon, False
    if rule.name in ("fedsgd", "fedavg"):
        shares, size = np.tile(by_words, (layers, 1)), 1.0
    elif rule.name == "fedatt":
        lengths = np.array([[_length(d[i], rule.norm) for d in deltas] for i in range(layers)])
        shares = softmax(lengths / rule.temperature, axis=1)
    elif rule.name == "fedmed":
        kept = np.argsort(losses, kind="stable")[: max(1, int(np.ceil(rule.top * count - 1e-9)))]
        change = np.inf if loss_before is None else abs(float(np.mean(losses)) - loss_before)
        adaptive = bool(change >= rule.threshold)
        shares = np.zeros((layers, count))
        for i in range(layers):
            apart = [_divergence(weights[i], weights[i] + deltas[k][i]) for k in kept]
            shares[i, kept] = softmax(apart) if adaptive else 1 / len(kept)
    mixed = [
        size * np.einsum("k,k...->...", shares[i], np.stack([d[i] for d in deltas]))
        for i in range(layers)
    ]
    return Step(mixed, adaptive, _effective(shares))


def _length(delta: np.ndarray, norm: str) -> float:
    if norm == "spectral" and delta.ndim == 2:
        return float(np.linalg.norm(delta, 2))
    return float(np.linalg.norm(delta))


def _divergence(server: np.ndarray, client: np.ndarray) -> float:
    """Jensen-Shannon, nats, of absolute weights as shares; those of a layer of zeros are equal."""
    p, q = (_shares(np.abs(x).ravel()) for x in (server, client))
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(x > 0, x * np.log(x / middle), 0.0) for x in (p, q)]
    return float(sum(np.sum(t) for t in terms) / 2)


def _shares(values: np.ndarray) -> np.ndarray:
    total = values.sum()
    return values / total if total else np.full(values.shape, 1 / values.size)


def _effective(shares: np.ndarray) -> float:
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return float(np.mean(np.exp(-np.sum(shares * logs, axis=1))))
