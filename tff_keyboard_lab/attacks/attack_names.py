"""Names of the attacks, in a module that does not import TFF (`attackers.py` does)."""

import typing
from collections.abc import Sequence
from typing import Literal

from tff_keyboard.storage.errors import UsageError

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


def check_server_is_allowed(attacks: Sequence[str], allow_tff_server: bool) -> None:
    """Checks that no attack needs TFF's own server, unless it may be started.

    Colluders see the whole round before it is aggregated. Only TFF's own runtime runs such rounds.

    Raises:
      UsageError: If an attack is in `COLLUDING`. The message names these attacks.
    """
    colluding = [attack for attack in attacks if attack in COLLUDING]
    if colluding and not allow_tff_server:
        raise UsageError(
            f"--attacks has colluding attacks ({', '.join(colluding)}), which need TFF's own "
            "server. It listens on all network interfaces, without a password. Pass "
            "--allow-tff-server, or choose other --attacks."
        )
