"""A secure sum in this process: devices, a server, and the messages between the steps."""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard_fleet.wire.secure_sums import masks
from tff_keyboard_fleet.wire.secure_sums.device import Device
from tff_keyboard_fleet.wire.secure_sums.messages import Settings
from tff_keyboard_fleet.wire.secure_sums.server import Server

SETTINGS = Settings(label=b"run 1", size=50, bits=32, degree=6, threshold=4)


class Round:
    """Devices and a server in this process. `vectors` are random integers by device."""

    def __init__(self, count=10, settings=SETTINGS, min_devices=None, seed=0):
        rng = np.random.default_rng(seed)
        keys = [Ed25519PrivateKey.generate() for _ in range(count)]
        devices = [Device(settings, key) for key in keys]
        self.devices = {device.name: device for device in devices}
        self.keys = dict(zip(self.devices, keys, strict=True))
        self.vectors = {
            name: rng.integers(-(2**40), 2**40, size=settings.size) for name in self.devices
        }
        self.settings = settings
        self.server = Server(settings, min_devices=min_devices or settings.degree + 1)

    def advertise(self):
        for device in self.devices.values():
            self.server.advertise(device.advert)
        self.neighbours = self.server.neighbours()

    def share(self, absent=()):
        for name in self.devices.keys() - set(absent):
            self.server.share(self.devices[name].share(self.neighbours[name]))
        self.envelopes = self.server.envelopes()

    def masked(self, name):
        return self.devices[name].report(self.envelopes[name], self.vectors[name])

    def report(self, absent=()):
        for name in self.envelopes.keys() - set(absent):
            self.server.report(self.masked(name))
        self.questions = self.server.questions()

    def confirm(self, absent=()):
        for name in self.questions.keys() - set(absent):
            self.server.confirm(self.devices[name].confirm(self.questions[name]))

    def reveal(self, name):
        return self.devices[name].unmask(self.server.confirmations(name))

    def unmask(self, absent=()):
        self.confirm(absent)
        for name in self.questions.keys() - set(absent):
            self.server.unmask(self.reveal(name))
        return self.server.sum()

    def truth(self, names):
        total = sum(self.vectors[name] for name in names)
        return (total % 2**self.settings.bits).astype(masks.WORDS[self.settings.bits])
