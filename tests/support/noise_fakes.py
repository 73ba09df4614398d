"""Private processes with noise from a key of the test's own."""

from tff_keyboard.algorithms.rounds.noised import NoisedProcess
from tff_keyboard.privacy.mechanisms import mechanism as mechanism_lib
from tff_keyboard.privacy.mechanisms.noise_streams import keyed_draw

KEY = bytes(range(32))


def noised(process, mechanism="gaussian", *, key=KEY, **numbers):
    """`process` with the noise of a mechanism, given by name and numbers; a 0 is none."""
    own = {name: number for name, number in numbers.items() if number}
    noise = mechanism_lib.named(mechanism, **own)
    return NoisedProcess(process, lambda size: noise.noise(keyed_draw(key), size))
