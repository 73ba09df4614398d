# %% [markdown]
# # Read an evaluation like a statistician
#
# Is an n-gram of five words better than one of four? We ask people whom neither has seen. The text
# is by synthetic typists. Run it in an empty folder.

# %%
import json
import math
import pathlib
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np

import tff_keyboard as tk

COMMAND = pathlib.Path(sys.executable).with_name("tff-keyboard")  # that of this Python


def tff_keyboard(*words):
    ran = subprocess.run([COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True)
    print(ran.stdout)


# %%
many = ("--set=data.synthetic_typists=600", "--set=data.held_out_fraction=0.3")
tff_keyboard("prepare", "--out=data/typists", *many)
models = ("ngram:4", "ngram:5", "unigram")
tff_keyboard("compare", *models, "--store=data/typists", "--out=runs/comparison")

# %% [markdown]
# **Controls.** `ngram:4`, the control, comes first: verdicts are against it. `unigram` ranks words
# by frequency alone and saves most keystrokes already, so never compare with zero.
#
# ## The unit is a person
#
# The file has a row of counts for each person. Words of one person are alike, so a hundred thousand
# words say less than a hundred thousand people would. An interval that takes words for independent
# is too narrow; `metric_interval` leaves out one person at a time instead.

# %%
METRIC = "recall_at_3_no_eos"  # top-3 recall: chosen before looking
results = pathlib.Path("runs/comparison/comparison.json")
comparison = tk.evaluation.Comparison.from_json(json.loads(results.read_text()))
control, longer, _ = (evaluation.sums for evaluation in comparison.evaluations)


def points(value):
    return f"{100 * value:.2f}"


interval = tk.metrics.metric_interval(control, METRIC)
words = comparison.text.words
over_words = 1.96 * math.sqrt(interval.value * (1 - interval.value) / words)
over_people = (interval.high - interval.low) / 2
print(f"top-3 recall {points(interval.value)} %: {words:,} words, {interval.clients} people")
print(f"half width over words   {points(over_words)} (too narrow)")
print(f"half width over people  {points(over_people)}")

# %% [markdown]
# ## A paired difference
#
# Both models read the same people. What makes a person hard to predict cancels in the difference.

# %%
other = tk.metrics.metric_interval(longer, METRIC)
paired = tk.metrics.metric_difference(longer, control, METRIC)
unpaired = 1.96 * math.hypot(interval.standard_error, other.standard_error)
print(f"difference          {points(paired.value)} points")
print(f"half width paired   {points((paired.high - paired.low) / 2)}")
print(f"half width unpaired {points(unpaired)}")

# %% [markdown]
# ## How many people?
#
# Say that we had only ten at first. 2.80 standard errors are the smallest difference that a test
# shows with 80 % power. `power` does this sum for any metric. The test itself takes people who were
# not in the pilot, and is looked at once.
#
# A pilot of ten says "not distinguishable", which is not "equal".
# "Two groups" is an experiment in which each person has one model: nothing cancels.

# %%
order = np.random.default_rng(1).permutation(interval.clients)
pilot, test = order[:10], order[10:]


def of(people, sums):
    return {name: values[people] for name, values in sums.items()}


def difference(people):
    return tk.metrics.metric_difference(of(people, longer), of(people, control), METRIC)


first, last = difference(pilot), difference(test)
for name, found in (("pilot", first), ("test", last)):
    print(
        f"{name}: {found.clients} people, {points(found.value)} "
        f"[{points(found.low)}, {points(found.high)}], "
        f"shows {points(2.80 * found.standard_error)} and more"
    )
takes = math.ceil(len(pilot) * (2.80 * first.standard_error / 0.0025) ** 2)
print(f"by the pilot, a lift of 0.25 points takes {takes} people")
tff_keyboard("power", results, "--lift=top-3:0.25")

# %% [markdown]
# ## Would the method cry wolf?
#
# Toss a coin for each person and swap the models where it shows heads: no true difference is left.
# Some 5 of 100 intervals should miss zero, by chance. So will one of 20 metrics that you look at:
# name yours beforehand.
#
# No interval here is for another training of the models. That takes several seeds
# ([studies](../studies.md)).

# %%
coins = np.random.default_rng(2)


def swapped():
    heads = coins.random(interval.clients) < 0.5
    pairs = {name: (longer[name], control[name]) for name in control}
    one = {name: np.where(heads, a, b) for name, (a, b) in pairs.items()}
    two = {name: np.where(heads, b, a) for name, (a, b) in pairs.items()}
    return tk.metrics.metric_difference(one, two, METRIC)


nothing = [swapped() for _ in range(1000)]
missed = sum(found.low > 0 or found.high < 0 for found in nothing)
print(f"{missed} of 1,000 intervals miss zero where nothing differs")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), width_ratios=(3, 2))
rows = [
    ("all, unpaired", paired.value, paired.value - unpaired, paired.value + unpaired),
    ("all, paired", *paired[:3]),
    (f"pilot, {len(pilot)} people", *first[:3]),
    (f"test, {len(test)} people", *last[:3]),
]
for place, (_, value, low, high) in enumerate(reversed(rows)):
    left.plot([100 * low, 100 * high], [place, place], color="tab:blue")
    left.plot(100 * value, place, "o", color="tab:blue")
left.set_yticks(range(len(rows)), [name for name, *_ in reversed(rows)])
left.axvline(0, color="black", linewidth=0.8)
left.set_xlabel("ngram:5 minus ngram:4, points of top-3 recall")
right.hist([100 * found.value for found in nothing], bins=30, color="lightgrey")
right.axvline(100 * paired.value, color="tab:blue", label="found")
right.set_xlabel("models swapped by coin: points")
right.legend()
figure.tight_layout()
plt.show()
