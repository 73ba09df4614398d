# %% [markdown]
# # Private training and its statement
#
# Differential privacy bounds how much a model can reveal about any one client. It costs accuracy,
# and the claim depends on how often each client takes part. In this tutorial you plan a private
# training, run it, and print its privacy statement. At the end you have two trained models, one
# without and one with privacy, their accuracy on held-out clients, and the statement that you
# could publish.
#
# ## Plan
#
# A plan takes the schedule of the training and returns the smallest noise that keeps epsilon at a
# target. Its *error* is the noise that is left in the model. Compare mechanisms by their error.

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
# The noise of a tree or a BLT is correlated: later rounds cancel part of the noise of earlier
# rounds. So their error is smaller. We choose the BLT with epsilon 8. How much would more clients
# per round help?

# %%
chosen = tk.privacy.plan("blt", schedule, target_epsilon=8)
larger = tk.privacy.Schedule(rounds=40, cohort=500, population=4_660, min_separation=8, delta=DELTA)
for plan in (chosen, tk.privacy.plan("blt", larger, target_epsilon=8)):
    print(f"{plan.schedule.cohort:4} clients per round: error {plan.error:.4f}")

# %% [markdown]
# Ten times as many clients give the same epsilon with a tenth of the error. Real federations are
# large. Ours is a toy, so privacy will cost accuracy.
#
# ## Train
#
# A privacy claim needs more than noise. Cohorts must keep the minimum separation, the noise needs
# a secret key, and every round must be recorded. `tff-keyboard train` does all of this. In a loop
# of your own (`PrivateMean`, `with_noise`) you have to do it.

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
type = "cifg"
units = 64
embedding_size = 32
[client]
learning_rate = 0.5
batch_size = 8
[server]
type = "fedavgm"
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
type = "blt"
clip_norm = 0.3
noise_multiplier = {chosen.noise_multiplier}
delta = {DELTA}
""")
for name in ("open", "private"):
    tff_keyboard("train", f"--config={name}.toml", f"--workdir={name}")

# %% [markdown]
# ## Compare
#
# How much accuracy did privacy cost? The two runs differ in nothing else. Both are evaluated on
# clients that no model was trained on.

# %%
for name in ("open", "private"):
    found = tk.evaluation.evaluate_run(name, "held_out").metrics["recall_at_1_no_eos"]
    print(f"{name:8} top-1 {found.value:.1%}, 95 % interval {found.low:.1%} to {found.high:.1%}")

# %% [markdown]
# ## State
#
# The statement is computed from the run's ledger only. The ledger has a line for each released
# round. Read also what the statement does *not* cover. This is as much a part of the claim as
# epsilon.

# %%
print(tk.privacy.privacy_statement(pathlib.Path("private/privacy_ledger.jsonl")))

# %% [markdown]
# Epsilon is the one of the plan. (Server momentum changes the BLT. If you use it, pass it to
# `plan`, too.)
#
# Before you publish a model:
#
# - Keep the key outside the run directory.
# - Choose the vocabulary privately.
# - Count every run that was trained on these clients: `tff-keyboard privacy RUN RUN`.
