"""Configs of commit 481d7a5: runs are translated, people are told what to write."""

import pytest
import tomli_w

from tff_keyboard import config
from tff_keyboard.config import upgrade
from tff_keyboard.config.aggregation_config import (
    AdaptiveClipping,
    AutoProtection,
    FixedClipping,
    NoClipping,
    NormalClientNoise,
    UniformQuantization,
)
from tff_keyboard.config.fine_tuning_config import (
    LearningWithoutForgetting,
    RehearsalMethod,
    Transfer,
)
from tff_keyboard.config.learning_config import FedAdam, FedAvgM, FedAvgServer, FedSgdClient
from tff_keyboard.config.privacy_config import Gaussian, GaussianAdaptive, Tree, TreeAdaptive
from tff_keyboard.config.rule_config import FedAtt, FedMed, PrivateFedAtt, TrimmedMean

DP = {"client_weighting": "uniform", "noise_multiplier": 1.0, "clip_norm": 0.5, "delta": 1e-5}
NOISE = {"noise_multiplier": 1.0, "clip_norm": 0.5, "delta": 1e-5}


def of_run(**sections):
    return config.loads_of_run(tomli_w.dumps(sections))


def aggregation(**keys):
    return of_run(aggregation={"name": "mean"} | keys).aggregation


def test_a_whole_config_of_then():
    """As `dump` of that commit wrote the demo's, every key in full."""
    text = (
        "[aggregation]\n"
        + tomli_w.dumps(upgrade._AGGREGATION | {"zeroing": "off", "clipping": "off"}).replace(
            "[layer_groups]", "[aggregation.layer_groups]"
        )
        + "[server]\n"
        + tomli_w.dumps(upgrade._SERVER)
        + "[fine_tuning]\n"
        + tomli_w.dumps(upgrade._FINE_TUNING)
        + '[train]\nalgorithm = "fedavg"\nrounds = 7\n[client]\nbucket_by_length = false\n'
        + '[model]\nname = "cifg"\ndropout = 0.0\n'
    )
    expected = config.loads(
        '[aggregation.protection]\nclipping = "off"\n[train]\nrounds = 7\n',
        ["execution.clients_per_pack=1", "execution.merge_block=1"],
    )
    assert config.loads_of_run(text) == expected
    assert config.resumable(text) == config.dump(expected)
    assert config.loads_of_run(text, ["train.rounds=9"]).train.rounds == 9


@pytest.mark.parametrize(
    "keys, rule",
    [
        ({"name": "fedatt", "temperature": 2.0, "norm": "1"}, FedAtt(temperature=2.0, norm="1")),
        (
            {"name": "fedmed", "top_fraction": 0.5},
            FedMed(top_fraction=0.5, mediation_threshold=0.01, local_loss="during_training"),
        ),
        ({"name": "trimmed_mean", "trim_fraction": 0.2}, TrimmedMean(trim_fraction=0.2)),
        (
            {"name": "private_fedatt", "dp": "gaussian", "layer_clip_norm": 0.3, **DP},
            PrivateFedAtt(),
        ),
    ],
)
def test_rules(keys, rule):
    assert aggregation(**keys).rule == rule


@pytest.mark.parametrize(
    "keys, privacy",
    [
        ({"dp": "gaussian", "sampling": "poisson"}, Gaussian(sampling="poisson", **NOISE)),
        (
            {"dp": "gaussian_adaptive", "clip_learning_rate": 0.1},
            GaussianAdaptive(clip_learning_rate=0.1, **NOISE),
        ),
        ({"dp": "tree", "max_participations": 3}, Tree(max_participations=3, **NOISE)),
        (
            {"dp": "tree_adaptive", "tree_restart_rounds": 4},
            TreeAdaptive(restart_rounds=4, **NOISE),
        ),
        (
            {"dp": "gaussian", "name": "private_fedatt", "layer_clip_norm": 0.3},
            Gaussian(**NOISE | {"clip_norm": 0.3}),
        ),
    ],
)
def test_mechanisms(keys, privacy):
    assert aggregation(**DP, **keys).privacy == privacy


@pytest.mark.parametrize(
    "keys, protection",
    [
        ({}, AutoProtection()),
        ({"name": "median", "clip_norm": 9.0}, NoClipping()),
        ({"zeroing": "off", "clipping": "off"}, NoClipping()),
        ({"zeroing": "on", "clipping": "off"}, NoClipping(zeroing=True)),
        ({"clip_norm": 0.1}, AdaptiveClipping(clip_norm=0.1)),
        ({"zeroing": "off"}, AdaptiveClipping(zeroing=False)),
        ({"clipping": "fixed", "clip_norm": 2.0}, FixedClipping(clip_norm=2.0, zeroing=True)),
        (
            {"name": "median", "clipping": "adaptive", "clipping_quantile": 0.5},
            AdaptiveClipping(quantile=0.5, zeroing=False),
        ),
    ],
)
def test_protection(keys, protection):
    found = aggregation(**keys)
    assert found.protection in (protection, AutoProtection())
    if protection != AutoProtection():
        assert found.resolved_protection == protection


def test_encodings_and_noise():
    found = aggregation(
        compression="uniform_quantization", compression_bits=4, client_noise_scale=0.5
    )
    assert found.compression == UniformQuantization(bits=4)
    assert found.client_noise == NormalClientNoise(scale=0.5, stddev=1.0)


@pytest.mark.parametrize(
    "keys, server",
    [
        ({"optimizer": "sgd"}, FedAvgM(momentum=0.9, nesterov=True)),  # as the default then
        (
            {"optimizer": "sgd", "momentum": 0.0, "learning_rate": 0.5},
            FedAvgServer(learning_rate=0.5),
        ),
        (
            {"optimizer": "adam", "learning_rate": 0.01},
            FedAdam(learning_rate=0.01, beta_2=0.99, epsilon=1e-3),
        ),
    ],
)
def test_servers(keys, server):
    assert of_run(server=keys).server == server


def test_fine_tuning():
    def found(**keys):
        return of_run(fine_tuning={"general_store": "g"} | keys).fine_tuning

    assert found(method="lwf", true_label_weight=0.2).method == LearningWithoutForgetting(
        true_label_weight=0.2
    )
    assert found(method="rehearsal", rehearsal_portion=0.2).method == RehearsalMethod(portion=0.2)
    transfer = of_run(
        fine_tuning={"server": "transfer", "transfer_text": "generated", "transfer_messages": 7},
        server={"optimizer": "sgd", "momentum": 0.5},
    )
    assert transfer.fine_tuning.server == Transfer(text="generated", messages=7)
    assert transfer.server == FedAvgM()  # it had no effect


def test_fedsgd_is_a_client_now():
    found = of_run(train={"algorithm": "fedsgd"}, client={"learning_rate": 0.3, "batch_size": 4})
    assert found.client == FedSgdClient(batch_size=4)


@pytest.mark.parametrize(
    "sections, dropped",
    [
        ({"client": {"bucket_by_length": True}}, "bucket_by_length"),
        ({"aggregation": {"name": "mean", "compression": "tff_quantization"}}, "tff_quantization"),
        (
            {
                "aggregation": DP
                | {"name": "private_fedatt", "dp": "gaussian", "denominator_scale": 0.5}
            },
            "denominator_scale",
        ),
    ],
)
def test_a_run_with_a_dropped_option_is_read_but_not_resumed(sections, dropped):
    text = tomli_w.dumps(sections)
    config.loads_of_run(text)
    with pytest.raises(config.ConfigError, match=rf"{dropped}.*not resumed"):
        config.resumable(text)


@pytest.mark.parametrize(
    "text, overrides, says",
    [
        (
            '[aggregation]\nname = "fedatt"\ntemperature = 2.0\nclipping = "off"\nzeroing = "off"',
            [],
            "`aggregation.zeroing`: configs have tables by kind now (docs/configs.md). Instead, "
            'write [aggregation.rule] name = "fedatt", temperature = 2.0; '
            '[aggregation.protection] clipping = "off".',
        ),
        (
            '[server]\noptimizer = "sgd"\nmomentum = 0.0\n[train]\nalgorithm = "fedsgd"\n',
            [],
            'write [client] algorithm = "fedsgd"; [server] optimizer = "fedavg".',
        ),
        (
            '[fine_tuning]\nmethod = "lwf"\n',
            [],
            'write [fine_tuning.method] name = "lwf".',
        ),
        (
            '[aggregation]\nlayer_groups = {a = ["0"], b = ["1"]}\nname = "fedatt"\n',
            [],
            'layer_groups = { a = ["0"], b = ["1"] }.',
        ),
        ('[server]\noptimizer = "sgd"\n', [], "write nothing, they are the defaults."),
        ("", ["aggregation.dp=gaussian"], "--set: `aggregation.dp`: configs have tables"),
        ("", ["aggregation.dp=true"], "--set: `aggregation.dp` must be a word in quotes, got True"),
        ('[aggregation]\ndp = "bogus"', [], "config: `aggregation.dp` must be one of 'none'"),
        ('[aggregation]\nname = ["a"]', [], "`aggregation.name` must be a word in quotes"),
        ('[aggregation]\nclip_norm = "x"', [], "`aggregation.clip_norm` must be a number, got 'x'"),
        (
            "[aggregation]\nblt_buffers = 1.5",
            [],
            "blt_buffers` must be a whole number",
        ),
        ("[aggregation]\nclip_norm = true", [], "`aggregation.clip_norm` must be a number"),
        ("[aggregation]\nlayer_groups = 3", [], "`aggregation.layer_groups` must be a table"),
    ],
)
def test_a_config_of_a_person_is_refused_with_what_to_write(text, overrides, says):
    with pytest.raises(config.ConfigError) as error:
        config.loads(text, overrides)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_todays_configs_are_not_taken_for_old_ones():
    assert not upgrade.is_old(config.to_dict(config.RunConfig()))
    compressed = {"aggregation": {"compression": {"codec": "none"}, "client_weighting": "tokens"}}
    assert not upgrade.is_old(compressed)
