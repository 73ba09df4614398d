"""The attacks by name; apart from `attacks.py`, which needs TFF."""

import typing
from typing import Literal

AttackName = Literal["nan", "boost", "sign_flip", "weight_lie", "shuffled_labels", "drop_out"]
ATTACK_NAMES: tuple[AttackName, ...] = typing.get_args(AttackName)
