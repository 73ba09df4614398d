"""A secure sum of a private mean."""

import numpy as np

from tests.aggregators.private.test_private_mean import CLIENTS, SIZE, clients, discrete_process
from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.privacy.registry.gaussian import GaussianConfig
from tff_keyboard_fleet.on_devices.secure_grid import secure_grid
from tff_keyboard_fleet.tests.wire.secure_sums.secure_round import Round
from tff_keyboard_fleet.wire.secure_sums.grid import from_grid, to_grid
from tff_keyboard_fleet.wire.secure_sums.messages import Settings


def test_a_secure_sum_is_the_same_mean():
    """The query sums the same integers that devices round to the grid and mask."""
    run, values = discrete_process(0.5, lambda label, size: np.zeros(size)), clients()
    result = run.next(run.initialize(), values).result
    privacy = GaussianConfig(clip_norm=0.75, distribution="discrete", noise_multiplier=0.5)
    config = AggregationConfig(privacy=privacy, client_weighting="uniform")
    grid = secure_grid(config, clients_per_round=CLIENTS)
    settings = Settings(label=b"r", size=SIZE, bits=grid.bits, degree=4, threshold=3)
    secure_round = Round(CLIENTS, settings)
    for name, (first, _) in zip(secure_round.devices, values, strict=True):
        secure_round.vectors[name] = to_grid(first, clip_norm=grid.clip_norm, step=grid.step)
    secure_round.advertise()
    secure_round.share()
    secure_round.report()
    mean = from_grid(secure_round.unmask(), step=grid.step) / CLIENTS
    np.testing.assert_allclose(result[0], mean, rtol=1e-5, atol=2 * grid.step)
