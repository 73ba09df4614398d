"""Takes part in a server's rounds with the text that was typed on this device.

tff-keyboard device --server=https://rounds.example.org --store=device
tff-keyboard device --server=... --store=device --once --charging --unmetered --idle
tff-keyboard device --store=device --typed=messages.jsonl
tff-keyboard device --store=device --decoder-recall

The device checks the conditions of the server's plan before it takes part. It knows its own state
from flags, or from --facts, a JSON file that is read again before each attempt. It trains, uploads
its update, and deletes the text that it trained on. If the process is killed, it continues at the
next start.

--typed adds messages to the device's cache. Each line is a JSON object: {"text": ..., "category":
"chat", "candidates": [["see", ["i", "see", "the"]], ...]}; `category` and `candidates` are
optional. --decoder-recall prints how often the candidates contained the typed word (Hard et al.
2018, Table 4).
"""

import contextlib
import dataclasses
import os
import pathlib
import time
from typing import TYPE_CHECKING, Annotated

from absl import flags

import tff_keyboard
from tff_keyboard.command_line.options import TaskOptions
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tff_keyboard_fleet.device.device import Device
    from tff_keyboard_fleet.device.eligibility import DeviceFacts
    from tff_keyboard_fleet.device.store import DeviceStore

_RAM = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of this machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `device`."""

    store: Annotated[
        pathlib.Path, "Folder of the device, readable only by its owner. Created if missing."
    ]
    server: Annotated[str | None, "Address of the round server, https://HOST:PORT."] = None
    ca: Annotated[pathlib.Path | None, "PEM file with the certificate of the server."] = None
    population: Annotated[
        str | None,
        "Take part only in this population, and record it. Default: the recorded one, or the one "
        "of the first seat.",
    ] = None
    once: Annotated[bool, "Make one attempt, then stop."] = False
    typed: Annotated[pathlib.Path | None, "JSON lines file with messages to add to the cache."] = (
        None
    )
    decoder_recall: Annotated[bool, "Print the recall of the cached candidates."] = False
    facts: Annotated[
        pathlib.Path | None,
        "JSON file with the state of the device; replaces --charging, --unmetered and --idle.",
    ] = None
    charging: Annotated[bool, "The device is charging."] = False
    unmetered: Annotated[bool, "The network is not metered."] = False
    idle: Annotated[bool, "The device is idle."] = False
    known_devices: Annotated[
        pathlib.Path | None,
        "Take part in secure sums only with these devices. File with a public key (hex) per line.",
    ] = None
    min_devices_in_sum: Annotated[
        int,
        "Upload only in secure sums with at least this many honest devices. 1: also allow uploads "
        "without secure aggregation.",
        flags.IntegerParser(1),
    ] = 1
    libcifg: Annotated[pathlib.Path | None, "Train with this libcifg.so instead of LiteRT."] = None

    def __post_init__(self) -> None:
        if not (self.server or self.typed or self.decoder_recall):
            raise UsageError("Pass --server=https://HOST:PORT, --typed=FILE or --decoder-recall.")


def run(options: Options) -> None:
    """Fills the cache, prints its recall and takes part, as the flags ask."""
    from tff_keyboard.host.progress import step
    from tff_keyboard_fleet.device.store import DeviceStore
    from tff_keyboard_fleet.wire.keys import public_hex

    with contextlib.closing(DeviceStore(options.store)) as store:
        _use_cache(options, store)
        if options.population:
            store.change(population=options.population)
        if options.server:
            device = _device(options, store, options.server)
            step(f"public key {public_hex(store.key())}")
            device.once() if options.once else device.run()


def _use_cache(options: Options, store: "DeviceStore") -> None:
    """Adds the typed messages of the options to the cache, and removes old ones."""
    from tff_keyboard_fleet.device import cache as caches

    limits, now = store.limits, time.time()
    max_per_category = limits.max_per_category
    with contextlib.closing(caches.ClientCache(store.cache)) as cache:
        cache.remove_old(
            now=now,
            ttl_days=limits.ttl_days,
            max_per_category=max_per_category,
            is_clock_right=False,
        )
        if options.typed is not None:
            typed = caches.read_typed(options.typed)
            cache.add(typed, now=now, max_per_category=max_per_category)
            print(f"Added {len(typed):,} messages. The cache now has {len(cache):,}.")
        if options.decoder_recall:
            print(cache.decoder_recall())


def _device(options: Options, store: "DeviceStore", server: str) -> "Device":
    """Returns the device of a store, as a client of `server` (a URL)."""
    from tff_keyboard_fleet.device import eligibility, known_devices
    from tff_keyboard_fleet.device.client import RoundClient
    from tff_keyboard_fleet.device.device import Device

    def facts() -> "DeviceFacts":
        if options.facts is not None:
            return eligibility.read_facts(options.facts)
        return eligibility.DeviceFacts(
            ram_gib=_RAM / 2**30,
            charging=options.charging,
            unmetered=options.unmetered,
            idle=options.idle,
            locale="en_US",
            app_version=tff_keyboard.__version__,
        )

    trusted_devices = known_devices.read(options.known_devices) if options.known_devices else None
    client = RoundClient(server, store.key(), ca=options.ca)
    return Device(
        store,
        client,
        facts,
        library=options.libcifg,
        known=trusted_devices,
        min_devices_in_sum=options.min_devices_in_sum,
    )
