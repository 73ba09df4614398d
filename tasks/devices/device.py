"""Takes part in the rounds of a server with what was typed on this device.

tff-keyboard device --server=https://rounds.example.org:8443 --ca=server.pem --store=device
tff-keyboard device --server=... --store=device --once --charging --unmetered --idle
tff-keyboard device --store=device --typed=messages.jsonl
tff-keyboard device --store=device --decoder-recall

The device decides by the plan's conditions whether it may take part; its facts come from flags, or
from --facts, a JSON file that is read again before each attempt. It trains, uploads what it learnt,
and deletes the text that it used. Killed at any moment, it goes on at the next start.

--typed adds to the cache: a JSON object a line, {"text": ..., "category": "chat", "candidates":
[["see", ["i", "see", "the"]], ...]}; the last two may be left out. --decoder-recall prints how
often the candidates had the word (Hard et al. 2018, Table 4).
"""

import contextlib
import dataclasses
import os
import pathlib
import time
from typing import TYPE_CHECKING, Annotated

import tff_keyboard
from ..options import Range, TaskOptions
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tflite_export.device.device import Device
    from tflite_export.device.eligibility import DeviceFacts
    from tflite_export.device.store import DeviceStore

_RAM = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of this machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    store: Annotated[pathlib.Path, "Folder of the device, for its owner only; made if missing."]
    server: Annotated[str | None, "Round server, https://HOST:PORT."] = None
    ca: Annotated[pathlib.Path | None, "Certificate of the server, PEM."] = None
    once: Annotated[bool, "One attempt, then the end."] = False
    typed: Annotated[pathlib.Path | None, "Messages to add to the cache, JSON lines."] = None
    decoder_recall: Annotated[bool, "Print the recall of the cached candidates."] = False
    facts: Annotated[pathlib.Path | None, "Facts of the device, JSON, instead of flags."] = None
    charging: Annotated[bool, "The device is charging."] = False
    unmetered: Annotated[bool, "Its network costs nothing by the byte."] = False
    idle: Annotated[bool, "Nobody uses it."] = False
    locale: Annotated[str, "Language and region."] = "en_US"
    app_version: Annotated[str, "Version of the keyboard."] = tff_keyboard.__version__
    ram_gib: Annotated[float, "Memory; by default that of this machine.", Range(0)] = _RAM / 2**30
    known_devices: Annotated[
        pathlib.Path | None, "Make secure sums with these alone: a public key in hex a line."
    ] = None
    libcifg: Annotated[pathlib.Path | None, "Train with this libcifg.so, not LiteRT."] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.server or self.typed or self.decoder_recall):
            raise UsageError("Give --server=https://HOST:PORT, --typed=FILE or --decoder-recall.")


def run(options: Options) -> None:
    """Fills the cache, prints its recall, takes part; each where it is asked for."""
    from tff_keyboard.host.progress import step
    from tff_keyboard.wire.keys import public_hex
    from tflite_export.device.store import DeviceStore

    with contextlib.closing(DeviceStore(options.store)) as store:
        _use_cache(options, store)
        if options.server:
            device = _device(options, store, options.server)
            step(f"public key {public_hex(store.key())}")
            device.once() if options.once else device.run()


def _use_cache(options: Options, store: "DeviceStore") -> None:
    from tflite_export.device import cache as caches

    limits, now = store.limits, time.time()
    most = limits.most_per_category
    with contextlib.closing(caches.ClientCache(store.cache)) as cache:
        cache.remove_old(now=now, ttl_days=limits.ttl_days, most_per_category=most)
        if options.typed is not None:
            typed = caches.read_typed(options.typed)
            cache.add(typed, now=now, most_per_category=most)
            print(f"{len(typed):,} messages added; the cache has {len(cache):,}")
        if options.decoder_recall:
            print(cache.decoder_recall())


def _device(options: Options, store: "DeviceStore", server: str) -> "Device":
    from tflite_export.device import eligibility, known_devices
    from tflite_export.device.client import RoundClient
    from tflite_export.device.device import Device

    def facts() -> "DeviceFacts":
        if options.facts is not None:
            return eligibility.read_facts(options.facts)
        names = (field.name for field in dataclasses.fields(eligibility.DeviceFacts))
        return eligibility.DeviceFacts(**{name: getattr(options, name) for name in names})

    known = known_devices.read(options.known_devices) if options.known_devices else None
    client = RoundClient(server, store.key(), ca=options.ca)
    return Device(store, client, facts, library=options.libcifg, known=known)
