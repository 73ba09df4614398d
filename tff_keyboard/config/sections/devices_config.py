"""`[devices]`: what `serve-rounds` asks of devices; nothing else reads it."""

import dataclasses
from typing import Annotated

from tff_keyboard.config.reading.checks import FromOne, NotNegative, Positive, Range
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevicesConfig(Table, path="devices"):
    """A round's end, and the conditions that a device itself looks at.

    The report goal is `train.clients_per_round`, the seats are `train.over_selection` times as
    many, `train.min_separation_rounds` keeps a device away after it took part, and
    `aggregation.compression` says how uploads are written.

    Attributes:
      population: Name that devices and server agree on.
      deadline_seconds: Time from the first seat of a round to its end. With `secure_sums`, seats
        above the least are given in its first quarter; who trains has until its half.
      least_share: Share of the report goal that is enough at the deadline; with less the round is
        abandoned and selected anew.
      ram_gib: Memory of a device at least.
      charging: Whether it must be on a charger.
      unmetered: Whether its network must be free of charge.
      idle: Whether nobody may be using it.
      locale: Language and region such as "en_US", or a language alone; "" is any.
      app_versions: Versions of the keyboard that may take part; none named: all.
      least_examples: Messages in its cache at least.
      least_days_between: Days since it last took part at least.
      secure_sums: Whether uploads are masked, so that the server learns their sum alone.
      secure_neighbours: Devices that a device shares masks with; even, in 2..100, fewer than the
        least in a sum, and so many that the surplus of `train.over_selection` loses none.
      cache_days: Days after which a message leaves the cache.
      cache_messages: Messages of one category of apps in the cache at most.
    """

    population: str = "keyboard"
    deadline_seconds: Positive = 600.0
    least_share: Annotated[float, Range("in (0, 1]", lambda share: 0 < share <= 1)] = 0.8
    ram_gib: NotNegative = 2.0
    charging: bool = True
    unmetered: bool = True
    idle: bool = True
    locale: str = ""
    app_versions: tuple[str, ...] = ()
    least_examples: FromOne = 1
    least_days_between: NotNegative = 0.0
    secure_sums: bool = False
    secure_neighbours: Annotated[
        int, Range("even and in 2..100", lambda count: 2 <= count <= 100 and count % 2 == 0)
    ] = 56
    cache_days: Positive = 30.0
    cache_messages: FromOne = 1000
