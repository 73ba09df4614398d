# %% [markdown]
# # Private training and its statement
#
# Differential privacy bounds what a model can tell about any one person. It costs accuracy, and
# what may be claimed depends on who joined when. So: plan first, train, then state.
#
# A plan needs the people you have, how many join a round, for how many rounds, and how long a
# person waits between two rounds. It gives the least noise that reaches a target.

# %%


import tff_keyboard as tk

schedule = tk.privacy.Schedule(
    rounds=60, cohort=200, population=20_000, min_separation=60, delta=1e-6
)
mechanisms = ("gaussian", "tree", "blt")
targets = (1, 2, 4, 8, 16)
plans = {
    name: [tk.privacy.plan(name, schedule, target_epsilon=target) for target in targets]
    for name in mechanisms
}
for name, (*_, found, _) in plans.items():
    print(f"{name:9} noise multiplier {found.noise_multiplier:.2f}, error {found.error:.4f}")
