# %% [markdown]
# # Write an aggregator and test it
#
# An aggregator combines the updates of a round's clients into one. In this tutorial you write one
# and test it against NumPy and against attackers. At the end you have an aggregator that you can
# use in any TFF training, and a picture that compares it with the mean and the median.
#
# Our aggregator is a mean that depends on *agreement*. It makes each number of the update smaller
# if the clients contradict each other:
#
#     result = mean * |mean| / mean of |update|
#
# The fraction is 1 if all clients move the number in the same direction, and 0 if they cancel
# out.
#
# It is a TFF factory like any other: it sums over clients, and the server divides.

# %%
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk


class Agreement(tff.aggregators.WeightedAggregationFactory):
    """Weighted mean, made smaller where clients contradict each other. It has no state."""

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
# rounds of five clients, merges workers, sends NaN from a client, and runs a round without any
# client.

# %%
tk.algorithms.local_context()  # computations run in this process


def show(found):
    for name, problem in found.items():
        print(f"{name:46} {problem or 'holds'}")


show(tk.aggregators.check_rule(Agreement()))

# %% [markdown]
# It finds two mistakes. First, a round without clients divides by zero, and the resulting NaN
# would stay in the model. We mend this in the aggregator. Second, one broken phone that sends NaN
# spoils the round for all clients. `UpdateGuard` prevents this: it rejects such an update and
# counts it in the metrics.


# %%
class Mended(Agreement):
    divide = staticmethod(tf.math.divide_no_nan)  # 0 / 0 is 0


rule = tk.aggregators.UpdateGuard(Mended())
found = tk.aggregators.check_rule(rule)
assert not any(found.values())
show(found)

# %% [markdown]
# These checks do not know our formula. So we compare the result with NumPy in double precision:


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
np.testing.assert_allclose(aggregate(rule, updates, weights), mean * abs(mean) / size, rtol=1e-5)
print("The result is the same as in NumPy.")

# %% [markdown]
# How does it differ from other aggregators? Four clients send 1, the fifth sends x:

# %%
x = np.linspace(-8, 8, 81)
updates = np.array([np.ones_like(x)] * 4 + [x], np.float32)
figure, axes = plt.subplots(figsize=(6, 3.4))
for name, each in {
    "mean": tff.aggregators.MeanFactory(),
    "agreement": rule,
    "median": tk.aggregators.Median(),
}.items():
    axes.plot(x, aggregate(each, updates, np.ones(5, np.float32)), label=name)
axes.set(xlabel="x, the update of the fifth client", ylabel="result")
axes.legend()
figure

# %% [markdown]
# Our aggregator damps a contradiction, but does not reject it. At x = -4 the result is 0, and
# below -4 the fifth client wins. So it is not a defence against attackers; the median is. An
# exaggerated update in the same direction passes in full. To prevent this, put
# `tk.aggregators.clipping` around the aggregator.
#
# To train with it, pass `model_aggregator=rule` to
# `tff.learning.algorithms.build_weighted_fed_avg`, as in [FedAtt and FedMed in your own TFF
# code](fedatt_in_your_tff_code.md). To add it to this library, follow
# [Contributing](../../CONTRIBUTING.md#add-an-aggregator).
