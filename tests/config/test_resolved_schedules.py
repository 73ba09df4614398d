"""`train.rounds` and the rounds of a cosine schedule are equal until a run has begun."""

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.config import as_run, rounds_of_cosines
from tff_keyboard.parts.schedule import Cosine

COSINES = {
    "server": "server.schedule.type=cosine",
    "client": "client.schedule.type=cosine",
    "central": 'central={type="adam",schedule={type="cosine"}}',
}


def resolved(recorded, *overrides):
    return as_run(config_lib.loads("", overrides), recorded)


@pytest.mark.parametrize("name", COSINES)
def test_a_cosine_ends_with_the_training(name):
    config = resolved(None, COSINES[name], "train.rounds=70")
    assert getattr(config, name).schedule.rounds == 70
    assert rounds_of_cosines(config) == [f"{name}.schedule.rounds=70"]
    shared = "execution.first_step=shared"
    again = [COSINES[name], "train.rounds=70", shared, *rounds_of_cosines(config)]
    assert config_lib.loads("", again) == config
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


def test_config_without_a_cosine_has_a_first_step():
    config = config_lib.RunConfig()
    assert resolved(None) == config_lib.loads("", ["execution.first_step=shared"]) != config


@pytest.mark.parametrize(
    "override", ["execution.first_step=shared", "execution.first_step=separate"]
)
def test_first_step_in_the_config_takes_precedence(override):
    for recorded in (None, "", '[execution]\nfirst_step = "shared"\n'):
        assert resolved(recorded, override) == config_lib.loads("", [override])


@pytest.mark.parametrize(
    ("recorded", "first_step"),
    [
        (None, "shared"),
        ("[train]\nseed = 1\n", "separate"),
        ('[execution]\nfirst_step = "shared"\n', "shared"),
        ('[execution]\nfirst_step = "separate"\n', "separate"),
    ],
)
def test_resumed_run_keeps_its_first_step(recorded, first_step):
    assert resolved(recorded).execution.first_step == first_step
