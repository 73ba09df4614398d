"""Colluding attackers that see all deltas of a round, and replace their own.

`attackers.py` attacks from inside one client's work. Here attackers know the honest deltas of the
round, as the strongest published attacks assume, and send the update that does most harm. With mu
and sd the honest mean and standard deviation of each coordinate:

    alie      mu - z sd, z by the number of clients (Baruch et al. 2019,
              https://arxiv.org/abs/1902.06156)
    ipm       -mu, as long as an honest delta (Xie et al. 2019, https://arxiv.org/abs/1903.03936)
    min_max   mu - gamma sd, gamma the largest with which no honest delta is farther from it than
              the farthest two honest ones from each other (Shejwalkar & Houmansadr 2021, NDSS)
    backdoor  deltas of poisoned training, scaled to replace the model but no longer than the
              longest honest one (constrain and scale: Bagdasaryan et al. 2020,
              https://arxiv.org/abs/1807.00459)
    quiet_backdoor  the mean of those, each coordinate cut to the honest quartiles, where no
              trimming by coordinate finds it (our own)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from tff_keyboard.aggregators.client_stack import num_clients

# One array [clients, numbers] for each tensor of a delta.
Rows: TypeAlias = Sequence[tf.Tensor]


class Plan(NamedTuple):
    """The updates on which the attackers of a round agree."""

    delta: Any  # update that each attacker sends; a backdoor sends `scaled` of its own instead
    longest: tf.Tensor  # length of the longest honest delta
    replace: tf.Tensor  # clients / attackers: a delta times this number replaces the mean
    honest: tf.Tensor  # number of honest clients, int32; with 0 there is no attack


def plan(attack: str, honest: Any, attackers_deltas: Any) -> Plan:
    """Returns the updates of attackers that see every delta of the round.

    Args:
      attack: Name of the attack.
      honest: Stack of the honest deltas. If it is empty, the plan has no meaning.
      attackers_deltas: Stack of the attackers' own deltas.
    """
    rows, own_rows = [_padded(x) for x in _rows(honest)], _rows(attackers_deltas)
    clients, attackers = num_clients(honest), num_clients(attackers_deltas)
    longest = tf.reduce_max(tf.sqrt(_squared_lengths(rows)))
    replace = tf.cast(clients + attackers, tf.float32) / tf.cast(attackers, tf.float32)
    sent: Rows
    if attack == "backdoor":
        sent = [tf.zeros_like(x[0]) for x in rows]
    elif attack == "quiet_backdoor":
        sent = _within_the_quartiles(rows, _scaled(own_rows, longest, replace))
    else:
        sent = _SENT[attack](rows, attackers)
    leaves = [
        tf.reshape(x, like.shape[1:]) for x, like in zip(sent, tf.nest.flatten(honest), strict=True)
    ]
    return Plan(tf.nest.pack_sequence_as(honest, leaves), longest, replace, clients)


def scaled(delta: Any, longest: tf.Tensor, replace: tf.Tensor) -> Any:
    """Returns a delta `replace` times as long, but not longer than `longest`."""
    rows = [tf.reshape(x, [1, -1]) for x in tf.nest.flatten(delta)]
    factor = _factors(rows, longest, replace)[0]
    return tf.nest.map_structure(lambda x: x * tf.cast(factor, x.dtype), delta)


def alie_z(clients: tf.Tensor, attackers: tf.Tensor) -> tf.Tensor:
    """Returns the number of standard deviations that stay undetected; Baruch et al., section 3.2.

    >>> round(float(alie_z(50, 24)), 2)
    1.43
    """
    supporters = clients // 2 + 1 - attackers
    share = (clients - attackers - supporters) / (clients - attackers)
    share = tf.clip_by_value(tf.cast(share, tf.float32), 1e-6, 1 - 1e-6)
    return tf.maximum(tf.math.ndtri(share), 0.0)


def _alie(honest: Rows, attackers: tf.Tensor) -> Rows:
    """Returns mean - z sd of the honest deltas ("a little is enough", Baruch et al. 2019)."""
    z = alie_z(tf.shape(honest[0])[0] + attackers, attackers)
    return [tf.reduce_mean(x, 0) - z * tf.math.reduce_std(x, 0) for x in honest]


def _ipm(honest: Rows, attackers: tf.Tensor) -> Rows:
    """Returns the negative mean of the honest deltas, with their median length."""
    del attackers
    mean = [tf.reduce_mean(x, 0) for x in honest]
    lengths = tf.sqrt(_squared_lengths(honest))
    factor = _quantile(lengths, 0.5) / tf.maximum(tf.linalg.global_norm(mean), 1e-30)
    return [-factor * x for x in mean]


def _min_max(honest: Rows, attackers: tf.Tensor) -> Rows:
    """Returns mean - gamma sd of the honest deltas, with the largest gamma that stays inside.

    Inside: at most as far from each honest delta as the two honest deltas that are farthest apart.
    """
    del attackers
    mean = [tf.reduce_mean(x, 0) for x in honest]
    spread = [tf.math.reduce_std(x, 0) for x in honest]
    centred = [x - m for x, m in zip(honest, mean, strict=True)]
    products = tf.add_n([tf.matmul(x, x, transpose_b=True) for x in centred])  # [clients, clients]
    squares = tf.linalg.diag_part(products)
    farthest = tf.reduce_max(squares[:, tf.newaxis] + squares - 2 * products)
    # |x_k + gamma sd|^2 <= farthest, of every client k: a quadratic in gamma.
    projection = tf.add_n([tf.linalg.matvec(x, s) for x, s in zip(centred, spread, strict=True)])
    spread_square = tf.add_n([tf.reduce_sum(s * s) for s in spread])
    root = tf.sqrt(tf.maximum(projection * projection + spread_square * (farthest - squares), 0.0))
    gamma = tf.reduce_min(tf.math.divide_no_nan(root - projection, spread_square))
    return [m - gamma * s for m, s in zip(mean, spread, strict=True)]


_SENT: dict[str, Callable[[Rows, tf.Tensor], Rows]] = {
    "alie": _alie,
    "ipm": _ipm,
    "min_max": _min_max,
}


def _within_the_quartiles(honest: Rows, directions: Rows) -> Rows:
    """Returns the mean of the directions, clipped to the quartiles of the honest deltas."""
    return [
        tf.clip_by_value(tf.reduce_mean(w, 0), _quantile(x, 0.25), _quantile(x, 0.75))
        for x, w in zip(honest, directions, strict=True)
    ]


def _scaled(deltas: Rows, longest: tf.Tensor, replace: tf.Tensor) -> Rows:
    """Returns the deltas times the factor that replaces the model, at most to length `longest`."""
    factors = _factors(deltas, longest, replace)[:, tf.newaxis]
    return [x * factors for x in deltas]


def _factors(rows: Rows, longest: tf.Tensor, replace: tf.Tensor) -> tf.Tensor:
    """Returns the factor of each row, [clients]."""
    lengths = tf.sqrt(_squared_lengths(rows))
    return tf.minimum(replace, longest / tf.maximum(lengths, 1e-30))


def _quantile(values: tf.Tensor, share: float) -> tf.Tensor:
    """Returns a quantile over the first axis, with linear interpolation as in NumPy."""
    ascending = tf.sort(values, axis=0)
    position = share * tf.cast(tf.shape(values)[0] - 1, tf.float32)
    low = tf.floor(position)
    below = tf.gather(ascending, tf.cast(low, tf.int32))
    above = tf.gather(ascending, tf.cast(tf.math.ceil(position), tf.int32))
    return below + (position - low) * (above - below)


def _rows(stacked: Any) -> Rows:
    """Returns the tensors as float32 matrices [clients, coordinates]."""
    return [
        tf.reshape(tf.cast(x, tf.float32), [tf.shape(x)[0], x.shape[1:].num_elements()])
        for x in tf.nest.flatten(stacked)
    ]


def _padded(rows: tf.Tensor) -> tf.Tensor:
    """Returns `rows`, or one row of zeros if there are none, so that statistics exist."""
    return tf.pad(rows, [[0, tf.cast(tf.equal(tf.shape(rows)[0], 0), tf.int32)], [0, 0]])


def _squared_lengths(rows: Rows) -> tf.Tensor:
    """Returns the squared lengths of whole deltas, [clients]."""
    return tf.add_n([tf.reduce_sum(x * x, 1) for x in rows])
