"""`train.rounds` and the rounds of a cosine are one number, until a run has begun."""

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.config.resolved_schedules import rounds_of_cosines, with_rounds
from tff_keyboard.config.sections.schedule_config import Cosine

COSINES = {
    "server": "server.schedule.name=cosine",
    "client": "client.schedule.name=cosine",
    "central": 'central={optimizer="adam",schedule={name="cosine"}}',
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


def test_what_is_said_otherwise_counts():
    config = resolved(None, COSINES["server"], "train.rounds=70", "server.schedule.rounds=50")
    assert config.server.schedule.rounds == 50


def test_a_run_that_goes_on_keeps_its_rates():
    begun = config_lib.dump(resolved(None, COSINES["server"], "train.rounds=70"))
    longer = resolved(begun, COSINES["server"], "train.rounds=90")
    assert (longer.train.rounds, longer.server.schedule.rounds) == (90, 70)
    said = resolved(begun, COSINES["server"], "train.rounds=90", "server.schedule.rounds=90")
    assert said.server.schedule.rounds == 90  # refused later, as the run began with 70
    assert config_lib.loads(begun, ["train.rounds=90"]) == longer


def test_a_longer_warm_up_than_was_recorded_is_left_to_be_refused():
    begun = config_lib.dump(resolved(None, COSINES["server"], "train.rounds=10"))
    longer = resolved(begun, COSINES["server"], "server.schedule.warmup_rounds=20")
    assert longer.server.schedule.warmup_rounds == 20


def test_a_training_within_its_warm_up_has_rates_too():
    config = resolved(None, COSINES["server"], "server.schedule.warmup_rounds=50", "train.rounds=2")
    assert config.server.schedule == Cosine(rounds=51, warmup_rounds=50)


def test_a_config_without_a_cosine_stays():
    assert with_rounds(config_lib.RunConfig()) == config_lib.RunConfig()
    assert rounds_of_cosines(config_lib.RunConfig()) == []
