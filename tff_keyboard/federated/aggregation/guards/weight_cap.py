"""Lets no client weigh more than twice what people have brought: tokens or messages.

    client k, round t:   w_k <- min(w_k, 2 m_t)
    server:              m_{t+1} = max(1, m_t exp(b_t - 1/2)),   m_1 = 1

b_t is the share of the round's clients of weight > 0 that claim more than m_t, so m climbs to the
median claim and follows it. A weight is a number that the client sends: without a cap one client
that claims 10^6 *is* the weighted mean, whatever clips its delta. For the median that is one vote,
as a claim just above m is. From one token, where all weigh alike, m takes 2 ln(median) rounds to
the median (450 tokens: 12 rounds), so there is no first round in which a liar is believed.

What lies are worth: ln m moves by b_t - 1/2 a round and stays where it is in the long run, so on
average half of the claims are above m_t. If a share a < 1/2 of clients lies, on average at least
1/2 - a are honest and bring m_t or more, while liars have 2 m_t each. So liars get at most this
share of the weight of many rounds, each counted in units of its m_t:

    2 a / (2 a + 1/2 - a) = 4 a / (1 + 2 a)

3.9 % for 1 %, 33 % for 10 %. It is no bound on a round, nor on the mean of the rounds' shares: m_t
lags behind text per person that changes. A tenth of liars has up to 97 % of a round, 55 % in the
mean, where all honest clients bring 1,000 tokens in one round and 10 in the next; and up to 61 % of
a round of 10 clients whose tokens are log-normal (sigma 2). Where all bring the same, m_t
oscillates: the mean share is 20.0 % for 10 %, 36.8 % for 20 %, 51.0 % for 30 % of liars. (NumPy,
that share of liars in each round.) For a bound in every round use `client_weighting` = "uniform".
Half the clients and more may have all they claim: no median helps there.

Source of the update: Andrew et al. 2021, https://arxiv.org/abs/1905.03871, there for clip norms.
"""

import collections
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.federated.aggregation.processes import AggregationProcess, Factory, build_process

MULTIPLE = 2.0
FIRST_MEDIAN = 1.0  # token or message: the least that counts
LARGEST_MEDIAN = 1e9  # keeps the number finite where most clients lie


class WeightCapFactory(tff.aggregators.WeightedAggregationFactory):
    """Caps the weights, follows their median, hands over to `inner`.

    Weights are float32 scalars, finite and >= 0 (`update_guard.py` stands before), or structures
    with such a `num_examples`. A round without a weight > 0 leaves the median where it is. State:
    `median` (float32, tokens or messages) and `inner`. Measurements: `weight_cap` (float32, of
    this round), `capped_weights` (int32, clients whose weight was cut) and `inner`.
    """

    def __init__(self, inner: Factory):
        self._inner = inner

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """The process, for these types."""
        inner = self._inner.create(value_type, weight_type)

        @tff.tensorflow.computation(weight_type, np.float32)
        def capped(weight, median):
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
            clients, above = (tf.cast(votes[name], tf.float32) for name in ("clients", "above"))
            share = tf.where(clients > 0, tf.math.divide_no_nan(above, clients), 0.5)
            moved = median * tf.exp(share - 0.5)
            return tf.clip_by_value(moved, FIRST_MEDIAN, LARGEST_MEDIAN)

        @tff.tensorflow.computation(np.float32, votes_type)
        def measure(median, votes):
            return collections.OrderedDict(
                weight_cap=MULTIPLE * median, capped_weights=votes["capped"]
            )

        def initialize():
            first = tff.federated_value(np.float32(FIRST_MEDIAN), tff.SERVER)
            return collections.OrderedDict(median=first, inner=inner.initialize())

        def next_fn(state, value, weight):
            median = state["median"]
            weight, votes = tff.federated_map(capped, (weight, tff.federated_broadcast(median)))
            votes = tff.federated_sum(votes)
            output = inner.next(state["inner"], value, weight)
            after = collections.OrderedDict(
                median=tff.federated_map(follow, (median, votes)), inner=output.state
            )
            found = tff.federated_map(measure, (median, votes))
            measurements = collections.OrderedDict(
                weight_cap=found["weight_cap"],
                capped_weights=found["capped_weights"],
                inner=output.measurements,
            )
            return after, output.result, measurements

        return build_process(initialize, next_fn, value_type, weight_type)


def _with_examples(weight: Any, examples: tf.Tensor) -> Any:
    if not isinstance(weight, Mapping):
        return examples
    return collections.OrderedDict(
        (name, examples if name == "num_examples" else x) for name, x in weight.items()
    )
