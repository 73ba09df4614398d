"""Deep nesting and long numbers in every file of a device: one line, and never a traceback."""

import contextlib

import pytest

from tests.support.damage import DEEP_JSON
from tff_keyboard.storage.errors import UserError
from tff_keyboard_fleet.device import cache, eligibility
from tff_keyboard_fleet.device.store import DeviceStore
from tff_keyboard_fleet.wire import messages
from tff_keyboard_fleet.wire.messages import CheckIn, Refused
from tff_keyboard_fleet.wire.plan import Plan


def put(folder, name, data):
    (folder / name).write_bytes(data)
    return folder / name


def candidates(folder, data):
    with contextlib.closing(cache.ClientCache(folder / "cache.db")) as client_cache:
        example = cache.Example(text="see you", candidates=[["see", ["see"]]])
        client_cache.add([example], now=1.0, max_per_category=9)
        with client_cache._connection as connection:
            connection.execute("update examples set candidates = ?", [data.decode()])
        client_cache.decoder_recall()


def state(folder, data):
    DeviceStore(folder / "device").close()
    put(folder / "device", "state.json", data)
    DeviceStore(folder / "device")


READERS = {
    "typed": lambda d, x: cache.read_typed(put(d, "typed.jsonl", x + b"\n")),
    "candidates": candidates,
    "facts": lambda d, x: eligibility.read_facts(put(d, "facts.json", x)),
    "state": state,
}


@pytest.mark.parametrize("kind", DEEP_JSON)
@pytest.mark.parametrize("name", READERS)
def test_file_is_one_line(name, kind, tmp_path):
    with pytest.raises(UserError) as caught:
        READERS[name](tmp_path, DEEP_JSON[kind])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


@pytest.mark.parametrize("kind", DEEP_JSON)
def test_messages_and_plans(kind):
    with pytest.raises(Refused, match=r"bad_json|too_large"):
        messages.decode(CheckIn, DEEP_JSON[kind])
    with pytest.raises(ValueError) as caught:
        Plan.from_bytes(DEEP_JSON[kind])
    assert str(caught.value).isprintable()
