"""Decides on the device whether it may take part, by the plan.

The server only learns that it checks in.

The conditions are those of Hard et al. 2018, section 5.2: memory, charging, an unmetered network,
idle, locale, version of the keyboard; and enough text, and enough time since the last training.
"""

import dataclasses
import pathlib

from tff_keyboard.storage import json_text, typed_json
from tff_keyboard.storage.errors import UsageError
from tff_keyboard_fleet.wire.plan import Conditions


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """Facts that a phone's system reports about the device.

    Attributes:
      ram_gib: Memory of the device.
      charging: Whether it is charging.
      unmetered: Whether its network is unmetered.
      idle: Whether it is idle.
      locale: Language and region, such as "en_US".
      app_version: Version of the keyboard.
    """

    ram_gib: float
    charging: bool
    unmetered: bool
    idle: bool
    locale: str
    app_version: str


def read_facts(path: pathlib.Path) -> DeviceFacts:
    """Reads the facts from a JSON file.

    Raises:
      UsageError: If the file has no such facts.
    """
    try:
        facts: DeviceFacts = typed_json.read(
            DeviceFacts, json_text.parse(path.read_bytes()), "facts"
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UsageError(f"{path}: does not have the state of a device ({why}).") from None
    return facts


def unmet(
    conditions: Conditions, facts: DeviceFacts, *, examples: int, days_since: float | None
) -> list[str]:
    """Returns the names of the conditions that are not met. If empty, the device may take part.

    Args:
      conditions: Conditions of the plan.
      facts: Facts of the device.
      examples: Number of messages in the cache.
      days_since: Days since the device took part; None if it never did.

    >>> facts = DeviceFacts(ram_gib=4, charging=True, unmetered=True, idle=False, locale="en_GB",
    ...                     app_version="7.3")
    >>> unmet(Conditions(locale="en"), facts, examples=9, days_since=None)
    ['idle']
    """
    locale, versions = conditions.locale, conditions.app_versions
    met = {
        "ram_gib": facts.ram_gib >= conditions.ram_gib,
        "charging": facts.charging or not conditions.charging,
        "unmetered": facts.unmetered or not conditions.unmetered,
        "idle": facts.idle or not conditions.idle,
        "locale": not locale or locale in (facts.locale, facts.locale.partition("_")[0]),
        "app_versions": not versions or facts.app_version in versions,
        "min_examples": examples >= conditions.min_examples,
        "min_days_between": days_since is None or days_since >= conditions.min_days_between,
    }
    return [name for name, is_met in met.items() if not is_met]
