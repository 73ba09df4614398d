# %% [markdown]
# # Read an evaluation like a statistician
#
# Is a 5-gram model better than a 4-gram model? In this tutorial you evaluate both models on
# held-out clients, and learn how certain the answer is. At the end you have a picture with four
# confidence intervals for the same difference. You will know which of them to trust, and how many
# clients a test needs. The text comes from synthetic users. Run the tutorial in an empty folder.

# %%
import json
import math
import pathlib
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np

import tff_keyboard as tk

COMMAND = pathlib.Path(sys.executable).with_name("tff-keyboard")  # installed next to this Python


def tff_keyboard(*words):
    ran = subprocess.run([COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True)
    print(ran.stdout)


# %%
many = ("--set=data.synthetic_typists=600", "--set=data.held_out_fraction=0.3")
tff_keyboard("prepare", "--out=data/typists", *many)
models = ("ngram:4", "ngram:5", "unigram")
tff_keyboard("compare", *models, "--store=data/typists", "--out=runs/comparison")

# %% [markdown]
# **Controls.** `compare` compares all models with the first one, the control. Here the control is
# `ngram:4`. The third model, `unigram`, ranks words by frequency only. It already saves most of
# the keystrokes that the other models save. So do not judge a model by its own savings; compare it
# with a simple model.
#
# ## The unit is a client
#
# The results have a row of counts for each client. The words of one client resemble each other.
# Therefore a hundred thousand words of few clients contain less information than a hundred
# thousand words of many clients, and an interval that treats words as independent is too narrow.
# `metric_interval` treats clients as independent: it leaves out one client at a time (the
# jackknife).

# %%
METRIC = "recall_at_3_no_eos"  # top-3 recall; choose the metric before you look at results
results = pathlib.Path("runs/comparison/comparison.json")
comparison = tk.evaluation.Comparison.from_json(json.loads(results.read_text()))
control, longer, _ = (evaluation.sums for evaluation in comparison.evaluations)


def points(value):
    return f"{100 * value:.2f}"


interval = tk.metrics.metric_interval(control, METRIC)
words = comparison.text.words
over_words = 1.96 * math.sqrt(interval.value * (1 - interval.value) / words)
over_clients = (interval.high - interval.low) / 2
print(f"top-3 recall {points(interval.value)} %: {words:,} words, {interval.clients} clients")
print(f"half width over words   {points(over_words)} (too narrow)")
print(f"half width over clients {points(over_clients)}")

# %% [markdown]
# ## A paired difference
#
# Both models read the text of the same clients. The text of some clients is hard to predict for
# every model. A paired difference compares the two models on each client, so the difficulty of the
# client cancels. Its interval is therefore much narrower than an unpaired one.

# %%
other = tk.metrics.metric_interval(longer, METRIC)
paired = tk.metrics.metric_difference(longer, control, METRIC)
unpaired = 1.96 * math.hypot(interval.standard_error, other.standard_error)
print(f"difference          {points(paired.value)} points")
print(f"half width paired   {points((paired.high - paired.low) / 2)}")
print(f"half width unpaired {points(unpaired)}")

# %% [markdown]
# ## How many clients?
#
# Suppose that we start with a pilot of only ten clients. If the pilot shows no difference, the
# models are "not distinguishable". This does not mean that they are equal: the pilot may be too
# small. A test with a power of 80 % can show differences of at least 2.80 standard errors. From the
# standard error of the pilot we compute the number of clients that a test needs. The test itself
# uses other clients than the pilot, and we evaluate it only once.

# %%
order = np.random.default_rng(1).permutation(interval.clients)
pilot, test = order[:10], order[10:]


def of(clients, sums):
    return {name: values[clients] for name, values in sums.items()}


def difference(clients):
    return tk.metrics.metric_difference(of(clients, longer), of(clients, control), METRIC)


first, last = difference(pilot), difference(test)
for name, result in (("pilot", first), ("test", last)):
    print(
        f"{name}: {result.clients} clients, {points(result.value)} "
        f"[{points(result.low)}, {points(result.high)}], "
        f"shows differences from {points(2.80 * result.standard_error)}"
    )
takes = math.ceil(len(pilot) * (2.80 * first.standard_error / 0.0025) ** 2)
print(f"from the pilot: to show a lift of 0.25 points, a test needs {takes} clients")

# %% [markdown]
# ## Does the method find differences that do not exist?
#
# For each client we toss a coin, and swap the two models if it shows heads. Then there is no true
# difference, and every difference that we find is a mistake. About 5 of 100 intervals at the 95 %
# level should exclude zero by chance. For the same reason, if you look at 20 metrics, about one of
# them will show a difference by chance. So choose your metric before you look at the results.
#
# These intervals say nothing about another training of the same models. For that you need several
# seeds ([studies](../studies.md)).

# %%
coins = np.random.default_rng(2)


def swapped():
    heads = coins.random(interval.clients) < 0.5
    pairs = {name: (longer[name], control[name]) for name in control}
    one = {name: np.where(heads, a, b) for name, (a, b) in pairs.items()}
    two = {name: np.where(heads, b, a) for name, (a, b) in pairs.items()}
    return tk.metrics.metric_difference(one, two, METRIC)


swaps = [swapped() for _ in range(1000)]
missed = sum(swap.low > 0 or swap.high < 0 for swap in swaps)
print(f"{missed} of 1,000 intervals exclude zero although there is no difference")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), width_ratios=(3, 2))
rows = [
    ("all, unpaired", paired.value, paired.value - unpaired, paired.value + unpaired),
    ("all, paired", *paired[:3]),
    (f"pilot, {len(pilot)} clients", *first[:3]),
    (f"test, {len(test)} clients", *last[:3]),
]
for place, (_, value, low, high) in enumerate(reversed(rows)):
    left.plot([100 * low, 100 * high], [place, place], color="tab:blue")
    left.plot(100 * value, place, "o", color="tab:blue")
left.set_yticks(range(len(rows)), [name for name, *_ in reversed(rows)])
left.axvline(0, color="black", linewidth=0.8)
left.set_xlabel("ngram:5 minus ngram:4, points of top-3 recall")
right.hist([100 * swap.value for swap in swaps], bins=30, color="lightgrey")
right.axvline(100 * paired.value, color="tab:blue", label="measured")
right.set_xlabel("models swapped at random: points")
right.legend()
figure.tight_layout()
plt.show()

# %% [markdown]
# The left picture answers the question. The paired intervals of all clients and of the test
# clients exclude zero, so the 5-gram model is a little better. The unpaired interval is too wide
# to show this, and the pilot has too few clients. In the right picture, the measured difference is
# much larger than all differences between models that were swapped at random.
