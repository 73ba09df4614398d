"""Tags that bind the noise of a round to the data whose sum it hides.

Two sums that differ must never be released with the same noise, because their difference would have
no noise. If the noise key determines the data of every round, as in a simulation on a recorded
client store, this follows from the key. If the data comes from outside, such as uploads of devices,
a run that is restored from a backup repeats a round with other data. Each round then has a tag, and
the noise of round t depends on it:

    tag_t = HMAC-SHA256(key; t, tag_{t-1}, SHA-256 of the data of round t)

Tags are chained. Otherwise two histories that agree only in round t would share the draws of
round t. Correlated noise combines these draws with draws of earlier rounds, so the difference of
the two releases would reveal the noise of the earlier rounds. The tag is keyed, because an unkeyed
digest would tell whether a guess of all uploads is right. A state contains the tags of its rounds,
and the ledger has the tag of each round.
"""

import hashlib
import hmac
from collections.abc import Sequence

DIGITS = 64  # hexadecimal digits of a tag


def next_tag(key: bytes, tags: Sequence[str], digest: bytes) -> str:
    """Returns the tag of the next round.

    Args:
      key: Key of the tags, 32 bytes, which is not used for anything else.
      tags: Tags of the earlier rounds.
      digest: SHA-256 of the round's data.
    """
    earlier = tags[-1] if tags else ""
    message = f"{len(tags)} {earlier} ".encode() + digest
    return hmac.digest(key, message, hashlib.sha256).hex()
