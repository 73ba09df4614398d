# %% [markdown]
# # Private training and its statement
#
# Differential privacy limits how much a model can reveal about any single client. It costs
# accuracy, and the guarantee depends on how often each client takes part. In this tutorial you
# plan a private training, run it, and print its privacy statement. At the end you have:
#
# - two trained models, one without and one with privacy;
# - the accuracy of both models on held-out clients;
# - the privacy statement, which you could publish.
#
# ## Plan
#
# `tk.privacy.plan` takes the schedule of the training and a target for epsilon. It returns the
# smallest noise that reaches the target. The *error* of a plan is the noise that remains in the
# model. Compare mechanisms by their error.

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
for name, plans_of_name in plans.items():
    epsilons = [plan.guarantee.epsilon for plan in plans_of_name]
    axes.plot(epsilons, [plan.error for plan in plans_of_name], "o-", label=name)
axes.legend()
axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="error, clip norms")
figure

# %% [markdown]
# The noise of the mechanisms "tree" and "blt" is correlated between rounds: later rounds cancel
# part of the noise of earlier rounds. Therefore their error is smaller. We choose "blt" with
# epsilon 8. How much would more clients per round help?

# %%
chosen = tk.privacy.plan("blt", schedule, target_epsilon=8)
larger = tk.privacy.Schedule(rounds=40, cohort=500, population=4_660, min_separation=8, delta=DELTA)
for plan in (chosen, tk.privacy.plan("blt", larger, target_epsilon=8)):
    print(f"{plan.schedule.cohort:4} clients per round: error {plan.error:.4f}")

# %% [markdown]
# With ten times as many clients, the error at the same epsilon is only a tenth. Real
# federations have many clients. Our example has few, so privacy will cost accuracy.
#
# ## Train
#
# A privacy guarantee needs more than noise. A client must not take part again before the minimum
# separation has passed, the noise needs a secret key, and every round must be recorded.
# `tff-keyboard train` does all of this. If you write a training loop of your own (with
# `PrivateMean` or `with_noise`), your loop has to do it.

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
# How much accuracy did privacy cost? The two runs differ only in their privacy mechanism. Both
# models are evaluated on held-out clients, whose text was not used in any training.

# %%
for name in ("open", "private"):
    recall = tk.evaluation.evaluate_run(name, "held_out").metrics["recall_at_1_no_eos"]
    print(f"{name:8} top-1 {recall.value:.1%}, 95 % interval {recall.low:.1%} to {recall.high:.1%}")

# %% [markdown]
# ## Print the privacy statement
#
# The statement is computed only from the ledger of the run, a file with one line for each round.
# Also read the part about the things that the statement does *not* cover. It is as important as
# epsilon.

# %%
print(tk.privacy.privacy_statement(pathlib.Path("private/privacy_ledger.jsonl")))

# %% [markdown]
# The statement has the epsilon of the plan. (Server momentum changes the noise of "blt". If you
# use momentum, pass it to `plan`, too.)
#
# Before you publish a model:
#
# - Keep the key outside the run directory.
# - Choose the vocabulary privately.
# - Count every run that was trained on these clients: `tff-keyboard privacy RUN RUN`.
