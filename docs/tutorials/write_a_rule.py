# %% [markdown]
# # Write an aggregation rule and prove it
#
# A rule says how the updates of a round's clients become one. Ours will be a mean that follows
# *agreement*: each number of the update is made smaller where clients contradict each other,
#
#     result = mean * |mean| / mean of |update|
#
# The fraction is 1 where all clients pull one way and 0 where they cancel out.
#
# It is a TFF factory like any other: sums are taken over clients, the server divides.

# %%
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk


class Agreement(tff.aggregators.WeightedAggregationFactory):
    """Weighted mean, less where clients contradict each other; no state."""

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
# `check_rule` puts a factory to the properties that every rule of this library has: five small
# clients, merged workers, a client that sends NaN, a round in which nobody reports.

# %%
tk.algorithms.local_context()  # workers that end with this script


def show(found):
    for name, problem in found.items():
        print(f"{name:46} {problem or 'holds'}")


show(tk.aggregators.check_rule(Agreement()))

# %% [markdown]
# Two mistakes. A round without clients divides by zero, and the NaN would stay in the model for
# good. And one broken phone spoils everybody's round. The first is the rule's to mend; the second
# is what `UpdateGuard` is for: it refuses such an update and says so in the metrics.


# %%
class Mended(Agreement):
    divide = staticmethod(tf.math.divide_no_nan)  # 0 / 0 is 0


rule = tk.aggregators.UpdateGuard(Mended())
found = tk.aggregators.check_rule(rule)
assert not any(found.values())
show(found)

# %% [markdown]
# The battery knows nothing of agreement. That the rule computes what its formula says is for a
# check of its own, against NumPy in double precision:


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
print("as NumPy has it")

# %% [markdown]
# What does the rule do that others do not? Four clients send 1, the fifth sends x:

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
axes.set(xlabel="x, what the fifth client sends", ylabel="result")
axes.legend()
figure

# %% [markdown]
# A contradiction is damped, not refused: near x = -4 nothing moves, and beyond it the fifth client
# wins. So this is no defence against attackers; the median is.
# Exaggeration in the same direction goes through in full: put `tk.aggregators.clipping` around the
# rule.
#
# In training the rule is `model_aggregator=rule` of
# `tff.learning.algorithms.build_weighted_fed_avg`, as in *FedAtt and FedMed in your own TFF code*.
# To add it to this library, see CONTRIBUTING.md.
