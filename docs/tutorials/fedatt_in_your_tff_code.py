# %% [markdown]
# # FedAtt and FedMed in your own TFF code
#
# You have TFF code with a Keras model. Here it gets two rules of aggregation that were made for
# keyboards, beside the control that tells whether they help.
#
# Any `ClientData` with a feature of text will do, such as TFF's Stack Overflow. These people are
# made up: each has favourite topics, a greeting and a length of message.

# %%
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk

TOPICS = {
    "food": "are you hungry | let us cook pasta tonight | the pizza was great",
    "work": "i am still at work | the meeting is at ten | see you at the office",
    "sport": "did you see the game | let us go for a run | the match is at ten",
    "home": "i am on my way home | can you buy some milk | see you at home tonight",
}
GREETINGS = ["hey", "hello there", "good morning", "hi"]
rng = np.random.default_rng(1)


def messages_of_a_person(number):
    taste = rng.dirichlet([0.4] * len(TOPICS))
    greeting = rng.choice(GREETINGS)
    for topic in rng.choice(list(TOPICS), size=number, p=taste):
        yield f"{greeting} {rng.choice(TOPICS[topic].split(' | '))}"


typed = {f"person {k:02}": {"text": list(messages_of_a_person(10 + 2 * k))} for k in range(40)}
people = tff.simulation.datasets.TestClientData(typed)
typed["person 03"]["text"][:3]

# %% [markdown]
# The vocabulary, then batches of word ids: special ids come first, 0 is padding.

# %%
words = tk.data.client_data_vocabulary(people, feature="text", size=100)
batches = tk.data.client_data_batches(people, words, feature="text", batch_size=8, max_length=12)
train_ids, test_ids = batches.client_ids[:32], batches.client_ids[32:]
datasets = {name: batches.create_tf_dataset_for_client(name) for name in batches.client_ids}
spec = datasets["person 00"].element_spec
print(f"{len(words)} words; {len(train_ids)} people train, {len(test_ids)} judge")
spec

# %% [markdown]
# Your model is yours; optimizers are TFF's, as TFF 0.87 takes no Keras ones.

# %%


def keras_model():
    tf.keras.utils.set_random_seed(7)  # all rules begin with the same weights
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
# FedAtt is `model_aggregator`. It weighs clients by how far they moved, layer by layer, and its
# epsilon is the server's learning rate. So the control is FedAvg **with the same learning rate**:
# a smaller step alone already changes a result. FedAtt does not look at how much a person typed, so
# a second control has equal weights. `UpdateGuard` keeps NaN out of these.
#
# FedMed's clients report their loss and how far their weights went besides, so it comes as a whole
# process.

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


tk.algorithms.local_context()  # workers that end with this script
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
# The loop, with the same cohorts for all. People who never train judge: the mean loss of a word
# in nats.

# %%
ROUNDS, COHORT = 20, 8
judge = keras_model()
whole = tk.data.client_data_batches(people, words, feature="text", batch_size=200, max_length=12)
test = [batch for name in test_ids for batch in whole.create_tf_dataset_for_client(name)]


def judged(process, state):
    process.get_model_weights(state).assign_weights_to(judge)
    counts = [np.count_nonzero(batch["y"]) for batch in test]
    losses = [float(loss(batch["y"], judge(batch["x"]))) for batch in test]
    return np.average(losses, weights=counts)


curves, last = {}, {}
for name, process in processes.items():
    draw, state = np.random.default_rng(3), process.initialize()
    curves[name] = {0: judged(process, state)}
    for done in range(1, ROUNDS + 1):
        cohort = draw.choice(train_ids, COHORT, replace=False)
        state, last[name] = process.next(state, [datasets[one] for one in cohort])
        if done % 2 == 0:
            curves[name][done] = judged(process, state)
    print(f"{name:22} {curves[name][0]:.3f} -> {curves[name][ROUNDS]:.3f} nats")

# %%
figure, axes = plt.subplots(figsize=(6, 3.4))
for name, curve in curves.items():
    axes.plot(curve.keys(), curve.values(), label=name)
axes.set(xlabel="round", ylabel="loss on others, nats a word")
axes.legend()
figure

# %% [markdown]
# Those who typed much teach more here, so the control with equal weights is behind; FedAtt is in
# between. A difference counts once it holds for several seeds. What FedAtt did is in the metrics:
# of eight clients, how many did the attention to each layer amount to?

# %%
attention = last["FedAtt"]["aggregator"]["inner"]["attention"]
for layer, found in attention.items():
    clients, share = found["effective_clients"], found["maximum_weight"]
    print(f"layer {layer}: {clients:.2f} clients, largest share {share:.2f}")
