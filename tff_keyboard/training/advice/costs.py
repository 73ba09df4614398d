"""Cost of a training: CPU seconds of a known machine, and minutes on another one.

    seconds of one core = START + rounds * (SERVER + clients * CLIENT) + operations / SPEED

CLIENT and SERVER grow with the weights of the model, which are copied, clipped and added up.
Operations are the ones of the matrix products: 6 per weight and target in training, 2 in
validation. The constants are fitted to whole trainings: docs/performance.md, what `advise` expects.
"""

import dataclasses

from tff_keyboard.host.machine_speed import Machine

GFLOPS = 100.0  # of a core of the constants' machine, as `machine_speed` measures
SPEED = 60e9  # operations of a training per second of that core
START_SECONDS = 25.0  # imports, compiling
SERVER_SECONDS, SERVER_SECONDS_PER_WEIGHT = 0.03, 0.028e-6
CLIENT_SECONDS, CLIENT_SECONDS_PER_WEIGHT = 0.002, 0.006e-6


@dataclasses.dataclass(frozen=True)
class Cost:
    """CPU seconds on the machine of the constants."""

    alone: float  # seconds on one core, for any number of cores: start, server
    shared: float  # seconds of clients, divided among the cores

    def core_minutes(self, machine: Machine) -> float:
        """Returns the minutes of one core of a machine."""
        return (self.alone + self.shared) * GFLOPS / machine.gflops / 60

    def minutes(self, machine: Machine) -> float:
        """Returns the minutes on all cores of a machine without other load."""
        return (self.alone + self.shared / machine.cores) * GFLOPS / machine.gflops / 60


def cost(
    *, weights: int, rounds: int, clients: int, targets: float, validation_targets: float
) -> Cost:
    """Returns the cost of a training."""
    server = SERVER_SECONDS + SERVER_SECONDS_PER_WEIGHT * weights
    client = CLIENT_SECONDS + CLIENT_SECONDS_PER_WEIGHT * weights + 6 * weights * targets / SPEED
    validation = 2 * weights * validation_targets / SPEED
    return Cost(START_SECONDS + rounds * server, rounds * clients * client + validation)
