"""`[devices]`: requirements of `serve-rounds` for devices. Not used elsewhere."""

import dataclasses
from typing import Annotated

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.storage.checks import FromOne, NotNegative, Positive, Range


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevicesConfig(Table, path="devices"):
    """The end of a round, and the conditions that a device checks itself.

    The report goal is `train.clients_per_round`. `train.over_selection` times as many devices get a
    seat in the round. `train.min_separation_rounds` excludes a device for some rounds after it took
    part. `aggregation.compression` determines the encoding of uploads.

    Attributes:
      population: Population name shared by devices and server.
      deadline_seconds: Time from the first seat of a round to its end. With `secure_sums`, seats
        above the minimum are given in the first quarter of this time, and devices must finish
        training in the first half.
      min_report_fraction: Share of the report goal that is enough at the deadline. With fewer
        reports the round is abandoned, and devices are selected again.
      ram_gib: Minimum memory of a device.
      charging: Whether the device must be charging.
      unmetered: Whether its network must be unmetered.
      idle: Whether the device must not be in use.
      locale: Language and region such as "en_US", or a language alone; "" allows any.
      app_versions: Versions of the keyboard that may take part; empty allows all.
      min_examples: Minimum number of messages in its cache.
      min_days_between: Minimum number of days since it last took part.
      secure_sums: Whether uploads are masked, so that the server learns only their sum. Against a
        malicious server, each device also needs `--known-devices` and `--min-devices-in-sum`.
      secure_neighbours: Number of devices that a device shares masks with; even, in 2..100, less
        than the minimum number of devices in a sum, and large enough that the surplus of
        `train.over_selection` loses none.
      cache_days: Days after which a message leaves the cache.
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
    cache_days: Positive = 30.0
    cache_messages: FromOne = 1000
