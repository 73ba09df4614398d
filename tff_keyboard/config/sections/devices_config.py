"""`[devices]`: requirements of `serve-rounds` for devices. Not used elsewhere."""

import dataclasses
from typing import Annotated

from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import FromOne, NotNegative, Positive, Range

MAX_CACHE_DAYS = 365  # devices refuse a plan that keeps their text for longer


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevicesConfig(Table, path="devices"):
    """When a round ends, and which devices can take part. Each device checks the conditions itself.

    Keys of other tables also apply. The report goal is `train.clients_per_round`, and the server
    selects `train.over_selection` times as many devices. `train.min_separation_rounds` excludes a
    device for some rounds after it took part. `aggregation.compression` determines the encoding of
    uploads.

    Attributes:
      population: Name of the population that the server trains. Only devices with the same name can
        take part. A device belongs to the population of its first seat, or to its `--population`.
      deadline_seconds: Duration of a round in seconds, from the selection of its first device. With
        `secure_sums`, devices above the minimum number are selected in the first quarter of this
        time, and devices must finish their training in the first half.
      min_report_fraction: Share of the report goal that must have arrived at the deadline. With
        fewer reports, the server abandons the round and selects devices again.
      ram_gib: Minimum memory of a device, in GiB.
      charging: Whether the device must be charging.
      unmetered: Whether the device must be on an unmetered network such as Wi-Fi.
      idle: Whether the device must be out of use during the training.
      locale: Required language and region of the device, such as "en_US", or a language only, such
        as "en". "" allows any.
      app_versions: Versions of the keyboard app that may take part. An empty list allows all.
      min_examples: Minimum number of messages in the cache of the device.
      min_days_between: Minimum number of days between two participations of a device.
      secure_sums: Whether devices mask their uploads, so that the server learns only the sum of the
        updates. For protection from a malicious server, devices also need the flags
        `--known-devices` and `--min-devices-in-sum`.
      secure_neighbours: Number of other devices with which each device shares masks. It must be
        smaller than the minimum number of devices in a sum. It must also be large enough that a sum
        is almost never lost if the devices that `train.over_selection` adds drop out.
      cache_days: Number of days that a typed message stays in the cache of the device.
      cache_messages: Maximum number of messages in the cache for each category of apps.
    """

    population: str = "keyboard"
    deadline_seconds: Positive = 600.0
    min_report_fraction: Annotated[float, Range("in (0, 1]", lambda share: 0 < share <= 1)] = 0.8
    ram_gib: NotNegative = 2.0
    charging: bool = True
    unmetered: bool = True
    idle: bool = True
    locale: str = ""
    app_versions: tuple[str, ...] = ()
    min_examples: FromOne = 1
    min_days_between: NotNegative = 0.0
    secure_sums: bool = False
    secure_neighbours: Annotated[
        int, Range("even and in 2..100", lambda count: 2 <= count <= 100 and count % 2 == 0)
    ] = 56
    cache_days: Annotated[
        float, Range(f"in (0, {MAX_CACHE_DAYS}]", lambda value: 0 < value <= MAX_CACHE_DAYS)
    ] = 30.0
    cache_messages: FromOne = 1000
