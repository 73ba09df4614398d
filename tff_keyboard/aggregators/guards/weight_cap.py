"""Limits every client's weight to twice the median claim: tokens or messages.

    client k, round t:   w_k <- min(w_k, 2 m_t)
    server:              m_{t+1} = max(1, m_t exp(b_t - 1/2)),   m_1 = 1

b_t is the share of the round's clients of weight > 0 that claim more than m_t, so m rises to the
median claim and follows it. A weight is a number that the client sends. Without a cap, one client
that claims 10^6 determines the weighted mean, even if its update is clipped. The median counts this
claim in the same way as a claim just above m. m starts at one token, so in the first round all
clients with at least two tokens have the same weight, and a false claim gains little. From there m
takes 2 ln(median) rounds to reach the median (400 tokens: 12 rounds).

The gain from false claims is bounded. In the long run ln m is stationary, so on average half of the
claims are above m_t. If a share a < 1/2 of the clients lies, at least 1/2 - a are honest and have
at least m_t, and liars have 2 m_t each. The liars' share of the weight over many rounds is
therefore at most

    2 a / (2 a + 1/2 - a) = 4 a / (1 + 2 a),    33 % for a = 10 %

a is the average share of liars in the cohorts. This is not a bound on a single round, because m_t
lags behind changes in the amount of text per client, and a cohort may have more liars than the
average: more than twice as many in 1 of 23 rounds of 20 clients for a = 10 %. With more than half
of all clients, liars let m rise to `LARGEST_MEDIAN`. For a bound in every round, use
`client_weighting` = "uniform".

Source of the rule for m: Andrew et al. 2021, https://arxiv.org/abs/1905.03871, who use it for clip
norms.
"""

import collections
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_factory
from tff_keyboard.aggregators.processes import AggregationProcess, Factory, build_process

MULTIPLE = 2.0
FIRST_MEDIAN = 1.0  # token or message: the smallest weight of a counting client
LARGEST_MEDIAN = 1e9  # keeps the number finite if most clients lie


class WeightCapFactory(tff.aggregators.WeightedAggregationFactory):
    """Caps the weights, follows their median, and passes the updates to `inner`.

        capped = tk.aggregators.WeightCap(tff.aggregators.MeanFactory())
        aggregator = tk.aggregators.UpdateGuard(capped)

    Weights are float32 scalars, finite and >= 0 (put `UpdateGuard` before), or structures with such
    a `num_examples`. A round without a weight > 0 does not change the median. State: `median`
    (float32, tokens or messages) and `inner`. Measurements: `weight_cap` (float32, of this round),
    `capped_weights` (int32, clients whose weight was reduced) and `inner`.

    Args:
      inner: A weighted factory.
    """

    def __init__(self, inner: Factory):
        require_factory(inner)
        self._inner = inner

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """Creates the process for these types."""
        inner = self._inner.create(value_type, weight_type)

        @tff.tensorflow.computation(weight_type, np.float32)
        def capped(weight, median):
            """Returns the weight, at most twice the median, and the client's votes on both."""
            claim = weight["num_examples"] if isinstance(weight, Mapping) else weight
            cap = MULTIPLE * median
            counted = tf.minimum(claim, cap)
            votes = collections.OrderedDict(
                clients=tf.cast(claim > 0, tf.int32),
                above=tf.cast(claim > median, tf.int32),
                capped=tf.cast(claim > cap, tf.int32),
            )
            return _with_examples(weight, counted), votes

        votes_type = capped.type_signature.result[1]

        @tff.tensorflow.computation(np.float32, votes_type)
        def follow(median, votes):
            """Moves the median towards the claims of a round, by the share of claims above it.

            Returns the next median, the cap of this round, and the number of capped clients.
            """
            clients, above = (tf.cast(votes[name], tf.float32) for name in ("clients", "above"))
            share = tf.where(clients > 0, tf.math.divide_no_nan(above, clients), 0.5)
            moved = median * tf.exp(share - 0.5)
            after = tf.clip_by_value(moved, FIRST_MEDIAN, LARGEST_MEDIAN)
            return after, MULTIPLE * median, votes["capped"]

        def initialize():
            first = tff.federated_value(np.float32(FIRST_MEDIAN), tff.SERVER)
            return collections.OrderedDict(median=first, inner=inner.initialize())

        def next_fn(state, value, weight):
            median = state["median"]
            weight, votes = tff.federated_map(capped, (weight, tff.federated_broadcast(median)))
            votes = tff.federated_sum(votes)
            output = inner.next(state["inner"], value, weight)
            median, cap, num_capped = tff.federated_map(follow, (median, votes))
            after = collections.OrderedDict(median=median, inner=output.state)
            measurements = collections.OrderedDict(
                weight_cap=cap, capped_weights=num_capped, inner=output.measurements
            )
            return after, output.result, measurements

        return build_process(initialize, next_fn, value_type, weight_type)


def _with_examples(weight: Any, examples: tf.Tensor) -> Any:
    """Returns the weight with another number of examples."""
    if not isinstance(weight, Mapping):
        return examples
    return collections.OrderedDict(
        (name, examples if name == "num_examples" else x) for name, x in weight.items()
    )
