# %% [markdown]
# # Your own aggregator in one file
#
# In this tutorial you write an aggregator in a file, name it in a config, and train with it. The
# training has validation, checkpoints and resume, as with the aggregators of this package. At the
# end you compare your aggregator with the mean. Run the tutorial in an empty folder.

# %%
import json
import pathlib
import subprocess
import sys

import matplotlib.pyplot as plt
import tensorflow_federated as tff

import tff_keyboard as tk

COMMAND = pathlib.Path(sys.executable).with_name("tff-keyboard")  # installed next to this Python


def tff_keyboard(*words):
    ran = subprocess.run([COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True)
    print(ran.stdout)


# %% [markdown]
# ## The file
#
# Our aggregator scales each update to the same L2 norm before it computes the mean, so that no
# client counts more than another because its update is long. An aggregator is a factory of
# `tff.aggregators`. The parameters of the class are its options in the config.

# %%
SOURCE = """
import tensorflow as tf
import tensorflow_federated as tff


class SameLength(tff.aggregators.UnweightedAggregationFactory):
    def __init__(self, norm: float = 1.0):
        self.norm = norm

    def create(self, value_type):
        mean = tff.aggregators.UnweightedMeanFactory().create(value_type)

        @tff.tensorflow.computation(value_type)
        def scaled(update):
            length = tf.linalg.global_norm(tf.nest.flatten(update))
            factor = tf.math.divide_no_nan(self.norm, length)
            return tf.nest.map_structure(lambda x: factor * x, update)

        @tff.federated_computation(mean.next.type_signature.parameter)
        def next_fn(state, value):
            return mean.next(state, tff.federated_map(scaled, value))

        return tff.templates.AggregationProcess(mean.initialize, next_fn)
"""
pathlib.Path("my_aggregator.py").write_text(SOURCE)
print(f"my_aggregator.py has {len(SOURCE.splitlines())} lines.")

# %% [markdown]
# `check_rule` checks properties that a mean has, in small rounds. Our aggregator lacks five of
# them. Three are intended: it changes the length of updates, and it ignores the clients' weights.
# The other two are NaN: if a client sends NaN, or if no client takes part, the result is not
# finite. A training from a config removes an update with NaN before your aggregator, and a round
# whose result is not finite changes nothing.

# %%
sys.path.insert(0, ".")
from my_aggregator import SameLength

tk.algorithms.local_context()
rule = tff.aggregators.as_weighted_aggregator(SameLength())  # `check_rule` passes weights
for name, problem in tk.aggregators.check_rule(rule).items():
    print(f"{name:46} {problem or 'holds'}")

# %% [markdown]
# ## The training
#
# `type` names the file, relative to the config, and the class. The second config has the mean.

# %%
BUDGET = """
[model]
type = "cifg"
units = 64
embedding_size = 48

[client]
learning_rate = 0.5
batch_size = 8
max_examples = 32

[train]
rounds = 40
clients_per_round = 8

[evaluation]
every = 5

[aggregation.rule]
"""
RULES = {
    "mine": 'type = "my_aggregator.py:SameLength"\nnorm = 2.0\n',
    "mean": 'type = "mean"\n',
}
tff_keyboard("prepare", "--out=data/demo")
for name, rule in RULES.items():
    pathlib.Path(f"{name}.toml").write_text(BUDGET + rule)
    tff_keyboard("train", f"--config={name}.toml", "--store=data/demo", f"--workdir=runs/{name}")

# %%
figure, axis = plt.subplots(figsize=(6, 3.4))
for name in RULES:
    rows = map(json.loads, pathlib.Path(f"runs/{name}/metrics.jsonl").read_text().splitlines())
    recall = {row["round"]: row.get("evaluation/recall_at_3_no_eos") for row in rows}
    recall = {number: 100 * value for number, value in recall.items() if value is not None}
    axis.plot(recall.keys(), recall.values(), marker="o", label=name)
axis.set(xlabel="round", ylabel="top-3 recall, percent")
axis.legend()
figure

# %% [markdown]
# The difference on held-out clients, with its paired interval:

# %%
tff_keyboard("compare", "runs/mean", "runs/mine")

# %% [markdown]
# One seed and one norm decide nothing: `tff-keyboard study` trains several. `runs/mine` records the
# SHA-256 of your file, and a resume with another source is refused.
#
# A private training with your aggregator is refused, because nothing is known about its
# sensitivity. [Your own part in a config](../own_parts.md#privacy) lists its promises.
# [Write an aggregator](write_an_aggregator.md) compares an aggregator with NumPy.
