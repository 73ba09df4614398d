# %% [markdown]
# # Your own algorithm: FedProx in 30 lines
#
# In this tutorial you write a client algorithm in a file, name it in a config, and train with it.
# The training has validation, checkpoints and resume, and the clients of a round train in one call
# of TensorFlow, as with the algorithms of this package. The algorithm is FedProx (Li et al. 2020).
# This package has it, too, as `client.type = "fedprox"`. Run the tutorial in an empty folder.

# %%
import json
import pathlib
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

COMMAND = pathlib.Path(sys.executable).with_name("tff-keyboard")  # installed next to this Python


def start(*words):
    return subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, text=True)


# %% [markdown]
# ## The file
#
# In FedAvg, a client takes a step of SGD for each of its batches. FedProx adds to the gradient of
# each step the distance from the weights $w$ to the weights $w^t$ that the client got, times a
# strength $\mu$. So clients with other text than the rest do not move as far away:
#
# $$
# w \leftarrow w - \eta \, (\nabla F_k(w) + \mu (w - w^t))
# $$
#
# A client algorithm returns client work. TFF's client work of FedAvg takes any local optimizer, and
# the step above is an optimizer: its state has the first weights that it saw. The state begins anew
# on each client. The parameters of `fed_prox` are its options in the config, and `model_fn` comes
# from the run.
#
# `loop_implementation` names TFF's fast loop. A run is as fast with the default one, but in TFF's
# own context the default costs up to 0.3 s for each client ([the fast
# path](../library.md#the-fast-path)). A loop of your own, `for batch in data` in a `tf.function`,
# is as fast, too.

# %%
SOURCE = """
import tensorflow as tf
import tensorflow_federated as tff


class ProximalSgd(tff.learning.optimizers.Optimizer):
    def __init__(self, learning_rate, strength):
        self.learning_rate, self.strength = learning_rate, strength

    def initialize(self, specs):
        return tf.constant(True), tf.nest.map_structure(lambda w: tf.zeros(w.shape), specs)

    def next(self, state, weights, gradients):
        is_first, start = state
        start = tf.nest.map_structure(lambda w, s: tf.where(is_first, w, s), weights, start)

        def step(w, g, s):
            g = tf.convert_to_tensor(g)  # the gradient of an embedding is sparse
            return w - self.learning_rate * (g + self.strength * (w - s))

        return (tf.constant(False), start), tf.nest.map_structure(step, weights, gradients, start)


def fed_prox(model_fn, learning_rate: float = 0.5, strength: float = 0.01):
    return tff.learning.templates.build_model_delta_client_work(
        model_fn,
        ProximalSgd(learning_rate, strength),
        client_weighting=tff.learning.ClientWeighting.NUM_EXAMPLES,
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
"""
pathlib.Path("my_algorithm.py").write_text(SOURCE)
print(f"my_algorithm.py has {len(SOURCE.splitlines())} lines.")

# %% [markdown]
# Two steps on a loss whose gradient is easy, $F(w) = \lVert w - a \rVert^2 / 2$, agree with NumPy.
# Check the sign in this way: if it were wrong, the training would still run. (TFF 0.87's own
# `build_weighted_fed_prox` adds $\mu (w^t - w)$, which drives clients away.)

# %%
sys.path.insert(0, ".")
from my_algorithm import ProximalSgd

RATE, MU = 0.5, 0.4
first, target = np.array([1.0, -2.0]), np.array([3.0, 0.5])
optimizer = ProximalSgd(RATE, MU)
state = optimizer.initialize((tf.TensorSpec([2], tf.float32),))
weights, expected = (tf.constant(first, tf.float32),), first
for _ in range(2):
    state, weights = optimizer.next(state, weights, (weights[0] - target,))
    expected = expected - RATE * ((expected - target) + MU * (expected - first))
print("with mu", weights[0].numpy(), " NumPy", expected)
print("without", first + (1 - (1 - RATE) ** 2) * (target - first), " the target", target)
np.testing.assert_allclose(weights[0], expected, rtol=1e-6)

# %% [markdown]
# ## The training
#
# `type` names the file, relative to the config, and the function. The second config has FedAvg.
# Clients take four passes over their messages, because a client that takes few steps cannot move
# far.

# %%
CONFIG = """
[model]
type = "cifg"
units = 32
embedding_size = 16

[train]
rounds = 12
clients_per_round = 6

[evaluation]
every = 3

[client]
learning_rate = 0.5
batch_size = 4
max_examples = 16
epochs = 4
"""
CLIENTS = {
    "mine": 'type = "my_algorithm.py:fed_prox"\nstrength = 0.5\n',
    "fedavg": 'type = "fedavg"\ngradient_clip_norm = 0.0\n',
}
assert start("prepare", "--out=data/demo").wait() == 0
runs = {}
for name, client in CLIENTS.items():
    pathlib.Path(f"{name}.toml").write_text(CONFIG + client)
    runs[name] = start(
        "train", f"--config={name}.toml", "--store=data/demo", f"--workdir=runs/{name}"
    )
for name, run in runs.items():
    print(name, run.communicate()[0].splitlines()[-1])
    assert run.returncode == 0

# %%
figure, axis = plt.subplots(figsize=(6, 3.4))
for name, style in {"mine": "o-", "fedavg": "s--"}.items():
    rows = map(json.loads, pathlib.Path(f"runs/{name}/metrics.jsonl").read_text().splitlines())
    recall = {row["round"]: row.get("evaluation/recall_at_3_no_eos") for row in rows}
    recall = {number: 100 * value for number, value in recall.items() if value is not None}
    axis.plot(recall.keys(), recall.values(), style, label=name)
axis.set(xlabel="round", ylabel="top-3 recall, percent")
axis.legend()
figure

# %% [markdown]
# One seed and 12 rounds on synthetic text decide nothing: `tff-keyboard compare` has paired
# intervals, and `tff-keyboard study` trains several seeds.
#
# `runs/mine` records the SHA-256 of your file, and a resume with another source is refused. A
# private training with your algorithm is refused, because nothing is known about its sensitivity;
# with `fedprox` it is not. [Your own part in a config](../own_parts.md#privacy) lists the promises
# that lift this. A function that needs more than an optimizer returns client work of its own, or a
# whole learning process: it can take `aggregator` and `server_optimizer` from the run.
