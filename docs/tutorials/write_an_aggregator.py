# %% [markdown]
# # Write an aggregator and test it
#
# An aggregator combines the updates of the clients of a round into one update. In this tutorial
# you write an aggregator, compare its results with NumPy, and test it with a client that sends
# extreme updates. At the end you have an aggregator that you can use in any TFF training, and a
# picture that compares it with the mean and the median.
#
# Our aggregator is a mean that depends on *agreement*. It makes a coordinate of the mean smaller
# if the clients disagree about its sign:
#
#     result = mean * |mean| / mean of |update|
#
# The fraction is 1 if the updates of all clients have the same sign in this coordinate. It is 0 if
# the updates cancel out.
#
# The aggregator is an ordinary TFF factory. It sums two values over the clients, and the server
# divides the sums.

# %%
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk


class Agreement(tff.aggregators.WeightedAggregationFactory):
    """Weighted mean whose coordinates are smaller if clients disagree. It has no state."""

    divide = staticmethod(tf.math.divide)

    def create(self, value_type, weight_type):
        @tff.tensorflow.computation(value_type, weight_type)
        def weighted(value, weight):
            sums = tf.nest.map_structure(lambda x: weight * x, value)
            sizes = tf.nest.map_structure(lambda x: weight * tf.abs(x), value)
            return sums, sizes, weight

        @tff.tensorflow.computation(weighted.type_signature.result)
        def divided(total):
            sums, sizes, weight = total

            def one(s, size):
                return self.divide(s, weight) * self.divide(tf.abs(s), size)

            return tf.nest.map_structure(one, sums, sizes)

        @tff.federated_computation
        def init_fn():
            return tff.federated_value((), tff.SERVER)

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            total = tff.federated_sum(tff.federated_map(weighted, (value, weight)))
            result = tff.federated_map(divided, total)
            return tff.templates.MeasuredProcessOutput(state, result, state)

        return tff.templates.AggregationProcess(init_fn, next_fn)


# %% [markdown]
# `check_rule` checks the properties that every aggregator of this library has. It runs small
# rounds with five clients. It also divides the clients among several workers, lets one client send
# NaN, and runs a round without clients.

# %%
tk.algorithms.local_context()  # in this process, clients in packs: the fast path of docs/library.md


def show(problems):
    for name, problem in problems.items():
        print(f"{name:46} {problem or 'holds'}")


show(tk.aggregators.check_rule(Agreement()))

# %% [markdown]
# The check finds two mistakes:
#
# - A round without clients divides by zero, and the resulting NaN would stay in the model. We fix
#   this in the aggregator.
# - If one broken phone sends NaN, the result of the whole round is NaN. `UpdateGuard` prevents
#   this: it rejects such an update and counts it in the metrics.


# %%
class SafeAgreement(Agreement):
    divide = staticmethod(tf.math.divide_no_nan)  # 0 / 0 is 0


aggregator = tk.aggregators.UpdateGuard(SafeAgreement())
problems = tk.aggregators.check_rule(aggregator)
assert not any(problems.values())
show(problems)

# %% [markdown]
# These checks do not know our formula. Therefore we also compare the result with NumPy in double
# precision:


# %%
def aggregate(factory, updates, weights):
    value_type = tff.TensorType(np.float32, updates.shape[1:])
    process = factory.create(value_type, tff.TensorType(np.float32))
    output = process.next(process.initialize(), list(updates), list(weights))
    return output.result


rng = np.random.default_rng(0)
updates = rng.normal(size=(6, 4)).astype(np.float32)
weights = np.arange(1, 7, dtype=np.float32)
mean, size = (
    np.average(x.astype(np.float64), axis=0, weights=weights) for x in (updates, abs(updates))
)
expected = mean * abs(mean) / size
np.testing.assert_allclose(aggregate(aggregator, updates, weights), expected, rtol=1e-5)
print("The result is the same as in NumPy.")

# %% [markdown]
# How does our aggregator differ from others? Four clients send the update 1, and the fifth client
# sends x:

# %%
x = np.linspace(-8, 8, 81)
updates = np.array([np.ones_like(x)] * 4 + [x], np.float32)
figure, axes = plt.subplots(figsize=(6, 3.4))
for name, each in {
    "mean": tff.aggregators.MeanFactory(),
    "agreement": aggregator,
    "median": tk.aggregators.Median(),
}.items():
    axes.plot(x, aggregate(each, updates, np.ones(5, np.float32)), label=name)
axes.set(xlabel="x, the update of the fifth client", ylabel="result")
axes.legend()
figure

# %% [markdown]
# Our aggregator reduces the effect of a client that disagrees, but does not remove it. At x = -4
# the result is 0. Below -4 the result has the sign of the fifth client. So our aggregator is not a
# defence against attackers, but the median is. If the fifth client sends a large update with the
# same sign as the others, our aggregator does not reduce it at all. To limit such updates, put
# `tk.aggregators.clipping` around the aggregator.
#
# To train with it, pass `model_aggregator=aggregator` to
# `tff.learning.algorithms.build_weighted_fed_avg`, as in [FedAtt and FedMed in your own TFF
# code](fedatt_in_your_tff_code.md). To add it to this library, follow
# [Contributing](../../CONTRIBUTING.md#add-an-aggregator).
