# %% [markdown]
# # FedAtt and FedMed in your own TFF code
#
# This tutorial is for users of TFF who have a Keras model. You will train the model with FedAtt
# and FedMed, two aggregation algorithms that were designed for keyboards. You will also train it
# with two variants of FedAvg, the controls, which show whether FedAtt and FedMed help. At the end
# you have four trained models, and one picture of their losses on held-out clients after every
# second round.
#
# You can use any `ClientData` with a text feature, such as TFF's Stack Overflow. Here we generate
# the clients. Each has favourite topics, a greeting, and a number of messages.

# %%
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk

# Computations run in this process, and clients in packs. In TFF's own context, a round of clients
# with few messages takes several times as long (docs/library.md, "The fast path").
tk.algorithms.local_context()  # before anything else that uses TensorFlow

TOPICS = {
    "food": "are you hungry | let us cook pasta tonight | the pizza was great",
    "work": "i am still at work | the meeting is at ten | see you at the office",
    "sport": "did you see the game | let us go for a run | the match is at ten",
    "home": "i am on my way home | can you buy some milk | see you at home tonight",
}
GREETINGS = ["hey", "hello there", "good morning", "hi"]
rng = np.random.default_rng(1)


def messages_of_client(number):
    taste = rng.dirichlet([0.4] * len(TOPICS))
    greeting = rng.choice(GREETINGS)
    for topic in rng.choice(list(TOPICS), size=number, p=taste):
        yield f"{greeting} {rng.choice(TOPICS[topic].split(' | '))}"


typed = {f"client {k:02}": {"text": list(messages_of_client(10 + 2 * k))} for k in range(40)}
client_data = tff.simulation.datasets.TestClientData(typed)
typed["client 03"]["text"][:3]

# %% [markdown]
# First we build a vocabulary from the words of all clients. Then we convert the text to batches of
# word ids. The lowest ids belong to special tokens; id 0 is padding.

# %%
words = tk.data.client_data_vocabulary(client_data, feature="text", size=100)
batches = tk.data.client_data_batches(
    client_data, words, feature="text", batch_size=8, max_length=12
)
train_ids, test_ids = batches.client_ids[:32], batches.client_ids[32:]
datasets = {name: batches.create_tf_dataset_for_client(name) for name in batches.client_ids}
spec = datasets["client 00"].element_spec
print(f"{len(words)} words; {len(train_ids)} clients train, {len(test_ids)} are held out")
spec

# %% [markdown]
# The model can be any Keras model. The optimizers are TFF's, because TFF 0.87 does not accept
# Keras optimizers.

# %%


def keras_model():
    tf.keras.utils.set_random_seed(7)  # all four trainings start from the same weights
    return tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(len(words), 24, input_shape=(None,)),
            tf.keras.layers.GRU(32, return_sequences=True),
            tf.keras.layers.Dense(len(words)),
        ]
    )


loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)


def model_fn():
    return tff.learning.models.from_keras_model(keras_model(), loss=loss, input_spec=spec)


# %% [markdown]
# FedAtt is an aggregator, so it is passed as `model_aggregator`. For each layer, it gives every
# client a weight that depends on how far the client moved this layer. The epsilon of the FedAtt
# paper is the learning rate of the server.
#
# FedAtt differs from ordinary FedAvg in two more points. We need a control for each:
#
# - The server's learning rate is below 1. This alone changes the result, so the control is FedAvg
#   **with the same learning rate**.
# - FedAtt ignores how much a client typed. So a second control is FedAvg with equal weights.
#
# `UpdateGuard` rejects updates with NaN.
#
# In FedMed, clients report more than their update: they also send their loss and how far their
# weights moved. So FedMed is a whole learning process, not an aggregator.

# %%
EPSILON = 0.8
client_sgd = tff.learning.optimizers.build_sgdm(1.0)
server_sgd = tff.learning.optimizers.build_sgdm(EPSILON)


def fed_avg_with(rule, weights=tff.learning.ClientWeighting.NUM_EXAMPLES):
    return tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        client_optimizer_fn=client_sgd,
        server_optimizer_fn=server_sgd,
        model_aggregator=tk.aggregators.UpdateGuard(rule),
        client_weighting=weights,
    )


processes = {
    "FedAvg": fed_avg_with(tff.aggregators.MeanFactory()),
    "FedAvg, equal weights": fed_avg_with(
        tff.aggregators.MeanFactory(), tff.learning.ClientWeighting.UNIFORM
    ),
    "FedAtt": fed_avg_with(tk.aggregators.FedAtt(norm=2)),
    "FedMed": tk.algorithms.build_fedmed(
        model_fn,
        tk.aggregators.FedMed(top_fraction=0.75, max_clients=8),
        client_optimizer=client_sgd,
        server_optimizer=server_sgd,
    ),
}

# %% [markdown]
# Now we train. All four processes use the same cohorts. We evaluate each model on the held-out
# clients by its mean loss per word, in nats.

# %%
ROUNDS, COHORT = 20, 8
evaluated = keras_model()
all_batches = tk.data.client_data_batches(
    client_data, words, feature="text", batch_size=200, max_length=12
)
test = [batch for name in test_ids for batch in all_batches.create_tf_dataset_for_client(name)]


def held_out_loss(process, state):
    process.get_model_weights(state).assign_weights_to(evaluated)
    counts = [np.count_nonzero(batch["y"]) for batch in test]
    losses = [float(loss(batch["y"], evaluated(batch["x"]))) for batch in test]
    return np.average(losses, weights=counts)


curves, last = {}, {}
for name, process in processes.items():
    draw, state = np.random.default_rng(3), process.initialize()
    curves[name] = {0: held_out_loss(process, state)}
    for done in range(1, ROUNDS + 1):
        cohort = draw.choice(train_ids, COHORT, replace=False)
        state, last[name] = process.next(state, [datasets[client] for client in cohort])
        if done % 2 == 0:
            curves[name][done] = held_out_loss(process, state)
    print(f"{name:22} {curves[name][0]:.3f} -> {curves[name][ROUNDS]:.3f} nats")

# %%
figure, axes = plt.subplots(figsize=(6, 3.4))
for name, curve in curves.items():
    axes.plot(curve.keys(), curve.values(), label=name)
axes.set(xlabel="round", ylabel="held-out loss, nats per word")
axes.legend()
figure

# %% [markdown]
# In this data, clients that typed more teach the model more. Therefore FedAvg with equal weights
# is worse than FedAvg, and FedAtt is in between. Trust such a difference only if you find it with
# several seeds.
#
# The metrics show how FedAtt weighted the clients. The effective number of clients is 8 if all
# eight clients have equal attention, and 1 if one client has all of it:

# %%
attention = last["FedAtt"]["aggregator"]["inner"]["attention"]
for layer, metrics in attention.items():
    clients, share = metrics["effective_clients"], metrics["maximum_weight"]
    print(f"layer {layer}: {clients:.2f} clients, largest share {share:.2f}")
