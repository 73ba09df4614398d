"""The attacks by name; apart from `attackers.py`, which needs TFF."""

import typing
from typing import Literal

AttackName = Literal[
    "nan", "boost", "sign_flip", "weight_lie", "drop_out", "free_ride", "shuffled_labels",
    "alie", "ipm", "min_max", "backdoor", "quiet_backdoor",
]  # fmt: skip
ATTACK_NAMES: tuple[AttackName, ...] = typing.get_args(AttackName)
# Their attackers see all honest deltas of a round.
COLLUDING: tuple[AttackName, ...] = ("alie", "ipm", "min_max", "backdoor", "quiet_backdoor")
BACKDOORS: tuple[AttackName, ...] = ("backdoor", "quiet_backdoor")
# Word ids: behind the first a backdoor suggests the second.
TRIGGER, TARGET = 60, 100
