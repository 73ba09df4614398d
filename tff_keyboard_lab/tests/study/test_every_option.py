"""Every option in a shipped study trains a round, shrunk and on synthetic clients."""

import pytest

from tests.training.test_every_config import CONFIGS, cases, train_a_round
from tff_keyboard_lab.tests.support import shipped_studies

# Computations by the dozen are built here, of code that other tests trace for `make coverage`.
pytestmark = pytest.mark.no_cover


@pytest.mark.slow
@pytest.mark.parametrize(
    "path, chosen", cases([*CONFIGS, *shipped_studies.options()])[len(cases(CONFIGS)) :]
)
def test_a_round_of_every_option(path, chosen, store, tmp_path):
    train_a_round(path, chosen, store, tmp_path)
