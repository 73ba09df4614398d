"""The configs of one table differ in what the table is about, and in nothing else."""

import pathlib

import pytest

from tff_keyboard import config as config_lib

CONFIGS = pathlib.Path("configs/aggregation")
PAPERS = ["fedatt", "fedavg", "fedavg_epsilon", "fedmed"]
RULES = {
    "sms": [*PAPERS, "dp_high", "dp_low", "fedmed_top05", "fedmed_top08", "private_fedatt"],
    "wikitext2": PAPERS,
}


def loaded(corpus):
    return {
        path.stem.removeprefix(f"{corpus}_"): config_lib.load(path)
        for path in sorted(CONFIGS.glob(f"{corpus}_*.toml"))
    }


@pytest.mark.parametrize("corpus", ["sms", "wikitext2"])
def test_configs_of_a_corpus_differ_in_aggregation_and_server_only(corpus):
    configs = loaded(corpus)
    assert set(RULES[corpus]) <= set(configs)
    first, *others = (config_lib.to_dict(config) for config in configs.values())
    for part in ("data", "model", "client", "train", "evaluation", "execution"):
        for other in others:
            assert other[part] == first[part], part


@pytest.mark.parametrize("corpus", ["sms", "wikitext2"])
def test_control_makes_the_server_step_of_the_rules(corpus):
    configs = loaded(corpus)
    control = configs["fedavg_epsilon"]
    assert control.server.optimizer in ("fedavg", "fedavgm")
    assert control.aggregation.rule.name == "mean"
    for name in set(RULES[corpus]) - {"fedavg"}:
        assert configs[name].server == control.server, name
        assert configs[name].aggregation.client_weighting == "uniform", name
    for name in RULES[corpus]:
        if name.startswith(("fedatt", "fedmed")):
            protection = configs[name].aggregation.resolved_protection
            assert protection == control.aggregation.resolved_protection, name


def test_top_k_is_in_the_name():
    shares = {
        name: config.aggregation.rule.top_fraction
        for name, config in loaded("sms").items()
        if name.startswith("fedmed")
    }
    assert shares == {"fedmed": 1.0, "fedmed_top08": 0.8, "fedmed_top05": 0.5}


def test_sms_text_and_fedavg_are_those_of_the_reference_run():
    reference, fedavg = config_lib.load("configs/nus_sms.toml"), loaded("sms")["fedavg"]
    for part in ("data", "model", "client", "server", "aggregation"):
        assert getattr(fedavg, part) == getattr(reference, part), part


def test_wikitext2_text_is_that_of_its_own_config():
    reference, fedavg = config_lib.load("configs/wikitext2.toml"), loaded("wikitext2")["fedavg"]
    assert fedavg.data == reference.data
    assert fedavg.data.num_shards == 10 * fedavg.train.clients_per_round == 100
    assert fedavg.model.name == "gru"
    assert fedavg.server.optimizer == "fedavg"  # the paper's rule is a step of epsilon, no more
