# %% [markdown]
# # Private training and its statement
#
# Differential privacy bounds what a model can tell about any one person. It costs accuracy, and
# what may be claimed depends on who joined when. So: plan, train, state.
#
# A plan takes who joins when and gives the least noise that keeps epsilon at a target. Its *error*
# is the noise that is left in the model: this is what to compare mechanisms by.

# %%
import pathlib
import subprocess
import sys

import matplotlib.pyplot as plt

import tff_keyboard as tk

DELTA = 1e-4
schedule = tk.privacy.Schedule(rounds=40, cohort=50, population=466, min_separation=8, delta=DELTA)
targets = (1, 2, 4, 8, 16)
plans = {
    name: [tk.privacy.plan(name, schedule, target_epsilon=target) for target in targets]
    for name in ("gaussian", "tree", "blt")
}
figure, axes = plt.subplots(figsize=(6, 3.4))
for name, found in plans.items():
    epsilons = [one.guarantee.epsilon for one in found]
    axes.plot(epsilons, [one.error for one in found], "o-", label=name)
axes.legend()
axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="error, clip norms")
figure

# %% [markdown]
# The noise of a tree or a BLT is correlated: later rounds take back some of that of earlier ones.
# We take the BLT at epsilon 8. What would more people a round buy?

# %%
chosen = tk.privacy.plan("blt", schedule, target_epsilon=8)
larger = tk.privacy.Schedule(rounds=40, cohort=500, population=4_660, min_separation=8, delta=DELTA)
for plan in (chosen, tk.privacy.plan("blt", larger, target_epsilon=8)):
    print(f"{plan.schedule.cohort:4} a round: error {plan.error:.4f}")

# %% [markdown]
# The same epsilon at a tenth of the error: real federations are large. Ours is a toy, so expect to
# pay.
#
# A claim needs more than noise: cohorts that keep the separation, a key, a record of every round.
# `tff-keyboard train` sees to these; in a loop of your own (`PrivateMean`, `with_noise`) you do.

# %%
COMMAND = pathlib.Path(sys.executable).with_name("tff-keyboard")


def tff_keyboard(*words):
    ran = subprocess.run([COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True)
    return ran.stdout


sizes = {"synthetic_typists": 600, "synthetic_messages": 30, "vocabulary_size": 500}
flags = [f"--set=data.{name}={value}" for name, value in sizes.items()]
print(tff_keyboard("prepare", "--out=chat", *flags).split("\n\n")[0])

pathlib.Path("open.toml").write_text(f"""
[data]
store = "chat"
[model]
name = "cifg"
units = 64
embedding_size = 32
[client]
learning_rate = 0.5
batch_size = 8
[server]
optimizer = "fedavgm"
learning_rate = 4.0
momentum = 0.0
[aggregation]
client_weighting = "uniform"
[train]
rounds = {schedule.rounds}
clients_per_round = {schedule.cohort}
min_separation_rounds = {schedule.min_separation}
[evaluation]
every = {schedule.rounds}
""")
pathlib.Path("private.toml").write_text(f"""
base = "open.toml"
[aggregation.privacy]
mechanism = "blt"
clip_norm = 0.3
noise_multiplier = {chosen.noise_multiplier}
delta = {DELTA}
""")
for name in ("open", "private"):
    tff_keyboard("train", f"--config={name}.toml", f"--workdir={name}")

# %% [markdown]
# What did privacy cost? The two differ in nothing else, and are judged by people who never
# trained.

# %%
for name in ("open", "private"):
    found = tk.evaluation.evaluate_run(name, "held_out").metrics["recall_at_1_no_eos"]
    print(f"{name:8} top-1 {found.value:.1%}, 95 % interval {found.low:.1%} to {found.high:.1%}")

# %% [markdown]
# The statement comes from the run's ledger alone, which has a line for each round that was
# released. Read what it does *not* cover: it is as much a part of the claim as epsilon.

# %%
print(tk.privacy.privacy_statement(pathlib.Path("private/privacy_ledger.jsonl")))

# %% [markdown]
# Epsilon is that of the plan. (Server momentum would change the BLT: give it to `plan`, too.)
# Before you publish: a key outside the run directory, a vocabulary chosen privately, and every run
# counted that saw these people (`tff-keyboard privacy RUN RUN`).
