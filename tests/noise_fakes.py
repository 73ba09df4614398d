"""Private processes with noise from a key of the test's own."""

from tff_keyboard.aggregation.host_noise import NoisedProcess
from tff_keyboard.privacy.mechanism import Mechanism
from tff_keyboard.privacy.noise_streams import keyed_draw

KEY = bytes(range(32))


def noised(process, mechanism="gaussian", *, key=KEY, **numbers):
    """`process` with the noise of a mechanism, given by name and numbers."""
    noise = Mechanism(name=mechanism, **numbers)
    return NoisedProcess(process, lambda size: noise.noise(keyed_draw(key), size))
