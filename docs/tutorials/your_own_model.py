# %% [markdown]
# # Your own model, from 40 lines to the phone
#
# In this tutorial you write a next-word model in Keras, train it with federated learning, compare
# it with the model of this package, and type on the file that a phone would get. You need no loop
# of your own: a config names your model, and the commands do the rest. Run the tutorial in an
# empty folder.

# %%
import pathlib
import subprocess
import sys

import matplotlib.pyplot as plt

import tff_keyboard as tk

COMMAND = pathlib.Path(sys.executable).with_name("tff-keyboard")  # installed next to this Python


def tff_keyboard(*words):
    ran = subprocess.run([COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True)
    print(ran.stdout)


# %% [markdown]
# ## The model
#
# A model maps word ids `[batch, time]` to logits `[batch, time, vocabulary]`. Ours is a GRU with
# layer normalisation and dropout. `units` is an option of the config. The size of the vocabulary
# comes from the run.
#
# `initial_state` and `step` are optional. With them, a phone computes one step for each word.
# Without them, it computes the last 32 words anew for each word. `step` must give the same logits
# as `call`, which `train` checks. In `step`, the layer normalisation gets an axis for time, because
# Keras built it for three axes.

# %%
MODEL = """
import tensorflow as tf

import tff_keyboard as tk


class Keyboard(tf.keras.Model):
    def __init__(self, vocabulary_size, units: int = 64, dropout: float = 0.1):
        super().__init__()
        self.units = units
        self.embedding = tf.keras.layers.Embedding(vocabulary_size, units)
        self.cell = tf.keras.layers.GRUCell(units)
        self.recurrence = tf.keras.layers.RNN(self.cell, return_sequences=True)
        self.norm = tf.keras.layers.LayerNormalization()
        self.dropout = tk.models.Dropout(dropout)
        self.logits = tf.keras.layers.Dense(vocabulary_size)

    def call(self, ids, training=None):
        hidden = self.norm(self.recurrence(self.embedding(ids)))
        return self.logits(self.dropout(hidden, training=training))

    def initial_state(self, batch_size):
        return tf.zeros([batch_size, self.units])

    def step(self, ids, state):
        hidden, state = self.cell(self.embedding(ids), state)
        return self.logits(self.norm(hidden[:, None])[:, 0]), state
"""
pathlib.Path("my_model.py").write_text(MODEL)
print(f"my_model.py has {len(MODEL.splitlines())} lines.")

# %% [markdown]
# ## Two configs
#
# Both configs have the same budget and differ in `[model]` only. `my_model.py:Keyboard` is a path
# relative to the config, and the name in this file.

# %%
BUDGET = """
[client]
learning_rate = 0.5
batch_size = 8
max_examples = 32

[server]
type = "fedavgm"

[train]
rounds = 40
clients_per_round = 8

[evaluation]
every = 10
"""
MINE = '[model]\ntype = "my_model.py:Keyboard"\nunits = 48\n'
CIFG = '[model]\ntype = "cifg"\nunits = 64\nembedding_size = 48\n'
pathlib.Path("mine.toml").write_text(MINE + BUDGET)
pathlib.Path("cifg.toml").write_text(CIFG + BUDGET)
print(pathlib.Path("mine.toml").read_text())

# %% [markdown]
# Without a file of messages, `prepare` generates the text of synthetic clients. The tutorial [A
# keyboard from your own messages](keyboard_from_your_messages.md) shows how to prepare your own.

# %%
tff_keyboard("prepare", "--out=data/demo")
tff_keyboard("train", "--config=mine.toml", "--store=data/demo", "--workdir=runs/mine")
tff_keyboard("train", "--config=cifg.toml", "--store=data/demo", "--workdir=runs/cifg")

# %% [markdown]
# A training that is killed continues if you run the same command again, and ends with the same
# weights. The run directory records the SHA-256 of `my_model.py`. If you change the file, the run
# is neither resumed nor evaluated, because its weights would belong to another model.
#
# ## The comparison
#
# `compare` evaluates both models on the same held-out clients. The brackets are 95 % intervals over
# clients, and the verdict is about paired differences. Synthetic clients and 40 rounds say little
# about real text, so repeat the comparison on your own text, with several seeds (`tff-keyboard
# study`).

# %%
tff_keyboard("compare", "runs/mine", "runs/cifg")

# %% [markdown]
# ## The export
#
# TensorFlow's converter writes the file, with weights of one byte. `export` writes it only if its
# suggestions for held-out clients are not noticeably worse than those of the Keras model.

# %%
tff_keyboard("export", "runs/mine", "--out=mine.tflite")
keyboard = tk.runtime.open_keyboard("mine.tflite")
figure, axes = plt.subplots(1, 3, figsize=(8, 1.6), layout="constrained")
for axis, typed in zip(axes, ("see you ", "i am ", "what t"), strict=True):
    suggestions = keyboard.strip_for(typed).suggestions[::-1]
    axis.barh([word for word, _ in suggestions], [share for _, share in suggestions])
    axis.set(title=typed + "|")
plt.show()

# %% [markdown]
# `tff-keyboard play mine.tflite` opens the keyboard in your browser. Only a CIFG can learn on the
# phone (`export --trainable`, `personalise`). The keyboard learns the words of its user with any
# model; `--ngram=500kB` adds an n-gram of your text.
#
# An aggregator, a client algorithm or a server optimizer of your own goes into a config in the same
# way: [Your own part in a config](../own_parts.md).
