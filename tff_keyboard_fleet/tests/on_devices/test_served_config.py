"""Unsupported configs are rejected by key; supported ones give a plan and round_settings."""

import dataclasses

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.config import ConfigError, to_dict
from tff_keyboard.config.resume_policy import MAY_CHANGE, numerics_config
from tff_keyboard_fleet.on_devices.served_config import as_served, plan_of, round_settings_of
from tff_keyboard_fleet.wire.secure_sums.neighbours import failure

SERVED = (
    "client.batch_size=1",
    "client.gradient_clip_norm=0",
    "data.long_messages=truncate",
    "train.clients_per_round=10",
    "train.over_selection=1.3",
)
FACTS = {"vocabulary": "v", "graph": "a" * 64, "parameters": 3}


def served(*overrides):
    return as_served(config_lib.load("configs/demo.toml", [*SERVED, *overrides]))


def test_the_shipped_config_is_served():
    config = as_served(config_lib.load("configs/fleet.toml"))
    assert config.model.initial_model == "models/base"
    assert round_settings_of(config).min_reports == 60


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("client={type='fedsgd'}", "client.type"),
        ("client={type='fedprox', batch_size=1, gradient_clip_norm=0.0}", "client.type"),
        ("client={type='mimelite', batch_size=1, gradient_clip_norm=0.0}", "client.type"),
        ("client.batch_size=8", "client.batch_size"),
        ("client.momentum=0.5", "client.momentum"),
        ("client.gradient_clip_norm=1", "client.gradient_clip_norm"),
        ("data.long_messages=continue", "data.long_messages"),
        ("model={type='gru'}", "model.type"),
        ("model.output_dropout=0.1", "model.output_dropout"),
        ("fine_tuning={method={type='lwf'}, general_store='x'}", "fine_tuning.method.type"),
        (
            "fine_tuning.server={type='transfer', text='generated'}",
            "fine_tuning.server.type",
        ),
        ("aggregation.row_correction.type=fedsubavg", "aggregation.row_correction.type"),
        ("aggregation.client_noise.type=normal", "aggregation.client_noise.type"),
        ("train.client_sampling=proportional", "train.client_sampling"),
        ("train.dropout_rate=0.1", "train.dropout_rate"),
        ("train.excluded_client=1", "train.excluded_client"),
    ],
)
def test_unsupported_settings_are_rejected(override, key):
    with pytest.raises(ConfigError, match=f"`{key}` = .* cannot be used with devices: .*Set it to"):
        served(override)


def test_projections_are_rejected():
    with pytest.raises(ConfigError, match=r"noise_cohort_size`.* cannot be used with devices"):
        served(
            "aggregation.client_weighting=uniform",
            "aggregation.privacy={type='tree', noise_cohort_size=100}",
        )


NEIGHBOURS = "devices.secure_neighbours"
SECURE = (
    "train.over_selection=1.0",
    "devices.secure_sums=true",
    "devices.secure_neighbours=6",
    "aggregation.client_weighting=uniform",
    "aggregation.protection={type='fixed', clip_norm=0.5}",
)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("aggregation.rule.type=fedatt", "attention needs the distance of each client"),
        ("aggregation.client_weighting=tokens", "weights are capped by the cohort's median"),
        (
            "aggregation.protection={type='adaptive', zeroing=false}",
            "fixed bound that devices know",
        ),
        (
            "aggregation.compression={type='uniform_quantization', bits=4}",
            "no codec can compress",
        ),
        ("devices.secure_neighbours=10", "`devices.min_report_fraction` .* can be as few as 8"),
        ("devices.secure_neighbours=5", "must be even and in 2..100"),
        ("train.over_selection=1.3", r"10 of 13 seats .* Use less `train\.over_selection`"),
    ],
)
def test_impossible_secure_sums_are_rejected(override, message):
    with pytest.raises(ConfigError, match=message):
        served(*SECURE, override)


def test_over_selection_alone_loses_no_sum_of_the_shipped_config():
    secure = [x for x in SECURE if x.startswith(("aggregation", "devices.secure_sums"))]
    round_settings = round_settings_of(as_served(config_lib.load("configs/fleet.toml", secure)))
    degree, threshold = round_settings.sums.degree, round_settings.sums.threshold
    assert (degree, threshold) == (56, 30)
    assert (
        failure(
            round_settings.max_seats,
            degree,
            threshold,
            round_settings.max_seats - round_settings.goal,
        )
        < 1e-6
    )
    for neighbours in (20, 50):
        few = config_lib.load("configs/fleet.toml", [*secure, f"{NEIGHBOURS}={neighbours}"])
        with pytest.raises(ConfigError, match=r"100 of 130 seats .* at least 52 neighbours"):
            as_served(few)
    as_served(config_lib.load("configs/fleet.toml", [*secure, f"{NEIGHBOURS}=52"]))


@pytest.mark.parametrize(
    ("neighbours", "over_selection", "expected"),
    [(52, 1.3, 27), (58, 1.3, 31), (56, 1.0, 33), (56, 1.2, 33), (6, 1.0, 4), (2, 1.0, 2)],
)
def test_the_threshold_is_the_highest_that_dropouts_permit(neighbours, over_selection, expected):
    secure = [x for x in SECURE if x.startswith(("aggregation", "devices.secure_sums"))]
    changed = [f"{NEIGHBOURS}={neighbours}", f"train.over_selection={over_selection}"]
    round_settings = round_settings_of(
        as_served(config_lib.load("configs/fleet.toml", [*secure, *changed]))
    )
    assert round_settings.sums.threshold == expected


def test_a_device_of_another_protocol_of_sums_stays_away():
    plan = plan_of(served(*SECURE), 1, **FACTS)
    older = dataclasses.replace(plan.secure_sums, protocol=1)
    with pytest.raises(ValueError, match=r"`plan\.secure_sums` is not of protocol 2"):
        type(plan).from_bytes(dataclasses.replace(plan, secure_sums=older).to_bytes())


def test_a_plan_that_asks_for_losses_beside_a_sum_is_refused():
    plan = dataclasses.replace(plan_of(served(*SECURE), 1, **FACTS), phases=["loss", "upload"])
    with pytest.raises(ValueError, match="the phase 'loss' would reveal them"):
        type(plan).from_bytes(plan.to_bytes())


def test_a_plan_with_secure_sums():
    config = served(*SECURE)
    plan = plan_of(config, 1, **FACTS)
    assert plan.codec.name == "masked"
    assert dataclasses.asdict(plan.secure_sums) == {
        "clip_norm": 0.5,
        "step": 0.5 / 2**20,
        "bits": 32,
        "degree": 6,
        "threshold": 4,
        "protocol": 2,
    }
    assert type(plan).from_bytes(plan.to_bytes()) == plan
    assert round_settings_of(config, 3).sums.size == 3
    clear = dataclasses.replace(plan, secure_sums=None)
    with pytest.raises(ValueError, match="belong together"):
        type(plan).from_bytes(clear.to_bytes())


def test_a_run_keeps_its_secure_sums():
    assert "devices.deadline_seconds" in MAY_CHANGE
    assert not {"devices.secure_sums", "devices.secure_neighbours"} & set(MAY_CHANGE)
    kept = numerics_config(to_dict(served(*SECURE, "devices.locale=en_US")))
    assert kept["devices"] == {"secure_sums": True, "secure_neighbours": 6}
    assert "devices" not in numerics_config(to_dict(served("devices.secure_neighbours=6")))


def test_rounds_are_checkpointed_before_they_are_released():
    assert served("train.checkpoint_every=5").train.checkpoint_every == 1


def test_terms():
    round_settings = round_settings_of(
        served("devices.min_report_fraction=0.75", "train.min_separation_rounds=4")
    )
    assert (
        round_settings.goal,
        round_settings.max_seats,
        round_settings.min_reports,
        round_settings.separation,
    ) == (10, 13, 8, 4)


def test_plan_follows_the_config():
    config = served(
        "client.learning_rate=0.4",
        "client.schedule={type='cosine', rounds=9, warmup_rounds=1}",
        "aggregation.compression={type='uniform_quantization', bits=3}",
        "devices.locale=en_US",
        "devices.app_versions=['1.2']",
        "devices.cache_days=7",
        "aggregation.rule.type=fedmed",
    )
    plan = plan_of(config, 1, **FACTS)
    assert (plan.learning_rate, plan.codec.bits, plan.loss) == (0.4, 3, "after_training")
    assert (plan.conditions.locale, plan.conditions.app_versions) == ("en_US", ["1.2"])
    assert (plan.cache.ttl_days, plan.weighting, plan.max_targets) == (7, "tokens", 64)
    assert plan_of(config, 4, **FACTS).learning_rate < 0.4
    assert type(plan).from_bytes(plan.to_bytes()) == plan


@pytest.mark.parametrize("key", ["min_report_fraction=0", "deadline_seconds=0", "cache_days=366"])
def test_devices_have_ranges(key):
    with pytest.raises(ConfigError, match=f"`devices.{key.partition('=')[0]}`"):
        served(f"devices.{key}")
