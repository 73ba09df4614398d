"""Names of the attacks, in a module that does not import TFF (`attackers.py` does)."""

import typing
from typing import Literal

AttackName = Literal[
    "nan", "boost", "sign_flip", "weight_lie", "drop_out", "free_ride", "shuffled_labels",
    "alie", "ipm", "min_max", "backdoor", "quiet_backdoor",
]  # fmt: skip
ATTACK_NAMES: tuple[AttackName, ...] = typing.get_args(AttackName)
# Attacks whose attackers see all honest deltas of a round.
COLLUDING: tuple[AttackName, ...] = ("alie", "ipm", "min_max", "backdoor", "quiet_backdoor")
BACKDOORS: tuple[AttackName, ...] = ("backdoor", "quiet_backdoor")
# Word ids: after the trigger, a backdoor suggests the target.
TRIGGER, TARGET = 60, 100
