"""A defence against attackers: updates are bounded, then trimmed by coordinate.

    x_k = delta_k min(1, R / ||delta_k||),  R the median of the norms of the M clients
    f = the least number with P(Binomial(M, attackers) > f) <= 1 / 1000, at most (M - 1) // 2
    result = mean of each coordinate of x without the f lowest and the f highest

**The promise.** With at most f attackers, every coordinate of the result is in the range of the
honest x, the clipped values. It need not be in the range of the honest delta_k, because attackers
can lower R: with short updates they move the median to a shorter honest one. What holds then:

- R is at least the ((M + 1) // 2 - f)-th smallest honest norm, and at most the longest one.
- x_k is delta_k times a factor in [0, 1]. So every coordinate is in the range of the honest values
  *and zero*. Attackers can shrink a step; they cannot turn it against all honest clients.

**Its probability.** A random cohort has more than f attackers in at most 1 of 1,000 rounds if M is
large enough. With M = 5 and 10 % attackers it is 9 of 1,000 rounds, because f cannot exceed 2.
`BoundedTrimmedMeanFactory.excess_probability` gives the number, and training refuses a config for
which it is above 1 / 1000 (`training/preflight.py`). In such a round the attackers choose
coordinates of the result. If they are fewer than half of the cohort, their x are still not longer
than the longest honest update; with a majority they also choose R.

Within these bounds attackers have a choice: if they stay at the edge of the honest range, they gain
more than under a plain mean of x (in a Gaussian toy model, 5 of 20 attackers move the result by
0.419 honest sigmas per round, and a plain mean by 0.250).

Clients are deliberately not judged by the direction of their updates: late in a training honest
updates point in all directions, and attackers could choose which clients seem to go backwards.

Source: Yin et al. 2018, Definition 2, https://arxiv.org/abs/1803.01498, for the trimmed mean. The
bound on the norms and the choice of f come from this project.
"""

import collections
from typing import Any

import tensorflow as tf

from tff_keyboard.aggregators import attackers_in_cohort, client_stack
from tff_keyboard.aggregators.attackers_in_cohort import RISK
from tff_keyboard.aggregators.registry.bounded_trimmed_mean import BoundedTrimmedMeanConfig
from tff_keyboard.parts.tables import documented_by


def bounded(stacked: Any) -> Any:
    """Scales each client's tensors [clients, ...] down to at most the median L2 norm.

    Computes in float64, in which no square of a float32 overflows.
    """
    flat = tf.nest.flatten(stacked)
    rows = [client_stack.rows_of(x) for x in flat]
    norms = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(row), axis=1) for row in rows]))  # [clients]
    # The lower middle of an even number, so that half of the clients are at least as long.
    middle = tf.maximum((tf.shape(norms)[0] - 1) // 2, 0)
    radius = tf.reduce_sum(tf.sort(norms)[middle : middle + 1])  # 0 without clients
    factors = tf.minimum(radius / tf.maximum(norms, 1e-300), 1.0)
    scaled = [
        tf.cast(row * factors[:, tf.newaxis], x.dtype) for row, x in zip(rows, flat, strict=True)
    ]
    shaped = [tf.reshape(row, tf.shape(x)) for row, x in zip(scaled, flat, strict=True)]
    return tf.nest.pack_sequence_as(stacked, shaped)


def max_attackers(clients: tf.Tensor, share: float) -> tf.Tensor:
    """Returns f of the module, int32: at most `(clients - 1) // 2`, so that one is left."""
    total = tf.cast(clients, tf.float64)
    attacker_counts = tf.range(total, dtype=tf.float64)  # 0 ... M - 1
    # P(Binomial(M, p) > n) = I_p(n + 1, M - n), the regularised incomplete beta function.
    tails = tf.math.betainc(
        attacker_counts + 1, total - attacker_counts, tf.cast(share, tf.float64)
    )
    exceeded = tf.math.count_nonzero(tails > RISK, dtype=tf.int32)
    return tf.minimum(exceeded, tf.maximum((clients - 1) // 2, 0))


@documented_by(BoundedTrimmedMeanConfig)
class BoundedTrimmedMeanFactory(client_stack.StackFactory):
    """Trimmed mean of updates with bounded norms, for cohorts with attackers.

        aggregator = tk.aggregators.BoundedTrimmedMean(attackers=0.1)

    Uses the clients of weight > 0. A round without such clients gives zeros. No state.
    Measurements (int32): `clients`, and `trimmed_clients`, the number 2 f of clients that are left
    out of each coordinate.

    The promise of the module holds in a round with at most f attackers. f depends on the clients of
    the round, so a round with fewer clients has another f: ask `excess_probability` about it.

    Args:
      attackers: See `BoundedTrimmedMeanConfig`.

    Raises:
      ValueError: If `attackers` is out of range.
    """

    def __init__(self, attackers: float = BoundedTrimmedMeanConfig.attackers):
        options = BoundedTrimmedMeanConfig.of_arguments(attackers=attackers)
        self._attackers = options.attackers
        super().__init__(self._defended, "A bounded trimmed mean")

    def excess_probability(self, clients: int) -> float:
        """Returns the probability that more attackers than are trimmed are in a cohort.

        At most 1 / 1000, unless `clients` are too few for the share of attackers.

        Args:
          clients: Clients of weight > 0 in the round.
        """
        cut = attackers_in_cohort.tolerated_attackers(clients, self._attackers)
        return attackers_in_cohort.excess_probability(clients, self._attackers, cut)

    def _defended(self, stacked: Any) -> tuple[Any, Any]:
        """Returns the trimmed mean of the bounded updates, and the measurements."""
        clients = client_stack.num_clients(stacked)
        cut = max_attackers(clients, self._attackers)
        measurements = collections.OrderedDict(clients=clients, trimmed_clients=2 * cut)
        return client_stack.middle_mean(bounded(stacked), cut), measurements
