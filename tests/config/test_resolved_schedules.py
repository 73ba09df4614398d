"""`train.rounds` and the rounds of a cosine schedule are equal until a run has begun."""

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.config import rounds_of_cosines, with_rounds
from tff_keyboard.config.sections.schedule_config import Cosine

COSINES = {
    "server": "server.schedule.type=cosine",
    "client": "client.schedule.type=cosine",
    "central": 'central={type="adam",schedule={type="cosine"}}',
}


def resolved(recorded, *overrides):
    return with_rounds(config_lib.loads("", overrides), recorded)


@pytest.mark.parametrize("name", COSINES)
def test_a_cosine_ends_with_the_training(name):
    config = resolved(None, COSINES[name], "train.rounds=70")
    assert getattr(config, name).schedule.rounds == 70
    assert rounds_of_cosines(config) == [f"{name}.schedule.rounds=70"]
    again = config_lib.loads("", [COSINES[name], "train.rounds=70", *rounds_of_cosines(config)])
    assert again == config
    for other in {*COSINES} - {name}:
        assert getattr(config, other) == getattr(config_lib.RunConfig(), other)


def test_rounds_in_the_config_take_precedence():
    config = resolved(None, COSINES["server"], "train.rounds=70", "server.schedule.rounds=50")
    assert config.server.schedule.rounds == 50


def test_resumed_run_keeps_its_rates():
    begun = config_lib.dump(resolved(None, COSINES["server"], "train.rounds=70"))
    longer = resolved(begun, COSINES["server"], "train.rounds=90")
    assert (longer.train.rounds, longer.server.schedule.rounds) == (90, 70)
    said = resolved(begun, COSINES["server"], "train.rounds=90", "server.schedule.rounds=90")
    assert said.server.schedule.rounds == 90  # rejected later, because the run began with 70
    assert config_lib.loads(begun, ["train.rounds=90"]) == longer


def test_longer_warm_up_than_recorded_is_rejected_later():
    begun = config_lib.dump(resolved(None, COSINES["server"], "train.rounds=10"))
    longer = resolved(begun, COSINES["server"], "server.schedule.warmup_rounds=20")
    assert longer.server.schedule.warmup_rounds == 20


def test_run_shorter_than_its_warm_up_has_rates():
    config = resolved(None, COSINES["server"], "server.schedule.warmup_rounds=50", "train.rounds=2")
    assert config.server.schedule == Cosine(rounds=51, warmup_rounds=50)


def test_config_without_a_cosine_is_unchanged():
    assert with_rounds(config_lib.RunConfig()) == config_lib.RunConfig()
    assert rounds_of_cosines(config_lib.RunConfig()) == []
