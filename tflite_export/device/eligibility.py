"""Whether a device may take part: decided on it, by the plan; the server learns that it came.

The conditions are those of Hard et al. 2018, section 5.2: memory, charging, an unmetered network,
idle, locale, version of the keyboard; and enough to train on, and long enough since the last time.
"""

import dataclasses
import json
import pathlib

from tff_keyboard.storage import typed_json
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.wire.plan import Conditions


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """What a phone's system tells a keyboard of the device.

    Attributes:
      ram_gib: Memory of the device.
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
    """The facts of a JSON file. Raises `UsageError` if it is another."""
    try:
        found: DeviceFacts = typed_json.read(DeviceFacts, json.loads(path.read_bytes()), "facts")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UsageError(f"{path}: holds no facts of a device ({why}).") from None
    return found


def unmet(
    conditions: Conditions, facts: DeviceFacts, *, examples: int, days_since: float | None
) -> list[str]:
    """Names of the conditions that are not met; none: the device may take part.

    Args:
      examples: Messages in the cache.
      days_since: Days since the device took part; None: never.

    >>> facts = DeviceFacts(ram_gib=4, charging=True, unmetered=True, idle=False, locale="en_GB",
    ...                     app_version="7.3")
    >>> unmet(Conditions(locale="en"), facts, examples=9, days_since=None)
    ['idle']
    """
    wanted, versions = conditions.locale, conditions.app_versions
    met = {
        "ram_gib": facts.ram_gib >= conditions.ram_gib,
        "charging": facts.charging or not conditions.charging,
        "unmetered": facts.unmetered or not conditions.unmetered,
        "idle": facts.idle or not conditions.idle,
        "locale": not wanted or wanted in (facts.locale, facts.locale.partition("_")[0]),
        "app_versions": not versions or facts.app_version in versions,
        "least_examples": examples >= conditions.least_examples,
        "least_days_between": days_since is None or days_since >= conditions.least_days_between,
    }
    return [name for name, is_met in met.items() if not is_met]
