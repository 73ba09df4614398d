import math

import numpy as np
import pytest

from tff_keyboard.metrics.perplexity import perplexity


def test_uniform_model_has_the_vocabulary_size():
    assert perplexity(7 * math.log(10_000), 7) == pytest.approx(10_000)


def test_limits():
    assert math.isnan(perplexity(0.0, 0))
    assert perplexity(1e6, 1) == math.inf
    assert perplexity(np.float64(0.0), 3) == 1.0
