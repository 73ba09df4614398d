"""Devices with stores take part in a search for words over HTTP, and delete the counted text."""

import contextlib
import time

from tff_keyboard_fleet.device import training_process
from tff_keyboard_fleet.device.cache import ClientCache, Example
from tff_keyboard_fleet.device.client import RoundClient
from tff_keyboard_fleet.device.device import Device
from tff_keyboard_fleet.device.store import DeviceStore
from tff_keyboard_fleet.round_server import serving
from tff_keyboard_fleet.tests.device.test_device import FACTS
from tff_keyboard_fleet.tests.on_devices.test_word_rounds import GOAL, VOCABULARY, find
from tff_keyboard_fleet.tests.support.devices import beside
from tff_keyboard_fleet.tests.support.served_fakes import free_port
from tflite_export.format import manifest

TEXTS = ["Blorp, see the secret.pdf", "blorp bob", "blue blorp! bob"]


class Phones:
    """Groups of `GOAL` new devices, one group after the other, served on a free port."""

    def __init__(self, folder, groups):
        self.folder, self.groups = folder, groups
        self.port, self.errors, self.said, self.left, self.states = free_port(), [], [], [], []

    @contextlib.contextmanager
    def __call__(self, app):
        with (
            serving.served(app, "127.0.0.1", self.port),
            beside(self._run, app, self.errors),
        ):
            yield

    def _run(self, app):
        try:
            for group in self.groups:
                self._take_part(group)
        except BaseException as error:
            self.errors.append(error)
            raise

    def _take_part(self, group):
        with contextlib.ExitStack() as opened:
            phones = []
            for position, text in enumerate(TEXTS):
                store = DeviceStore(self.folder / f"phone{group}_{position}")
                opened.enter_context(contextlib.closing(store))
                with contextlib.closing(ClientCache(store.cache)) as cache:
                    cache.add([Example(text=text)], now=time.time(), max_per_category=9)
                client = RoundClient(
                    f"http://127.0.0.1:{self.port}", store.key(), sleep=lambda seconds: None
                )
                train = lambda job, seconds: training_process.do(job)  # noqa: E731
                phones.append(
                    (store, Device(store, client, lambda: FACTS, train=train, say=self.said.append))
                )
            until = time.monotonic() + 60
            while any(store.state.words_token is None or store.state.task for store, _ in phones):
                assert time.monotonic() < until, self.said
                for store, device in phones:
                    store.change(not_before=0.0)
                    if store.state.words_token is None or store.state.task:
                        device.attempt()
            for store, _ in phones:
                with contextlib.closing(ClientCache(store.cache)) as cache:
                    self.left.append(len(cache))
                self.states.append(store.state)


def test_devices_find_words_and_delete_their_text(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "load_checked", lambda path: (None, VOCABULARY))
    phones = Phones(tmp_path, [1, 2, 3])
    found = find(tmp_path / "words", phones)
    assert found.words == {"blorp": 3.0, "bob": 2.0}
    assert phones.left == [0] * 3 * GOAL
    for number, state in enumerate(phones.states):
        # Four groups: a device waits for as many rounds. It keeps no graph as a model.
        assert state.first_rounds == {"keyboard (new words)": number // GOAL + 1 + 4}
        assert (state.token, state.model, state.population) == (None, None, "keyboard")
    assert not any("blorp" in line or "secret" in line for line in phones.said)
