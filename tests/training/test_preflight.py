"""What is refused before TensorFlow is imported."""

import warnings

import pytest

from tests.support import shipped_configs
from tests.support.console import answers
from tests.support.fakes import tiny_config
from tff_keyboard import config as config_lib
from tff_keyboard.config import ConfigError
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.storage.errors import DataError
from tff_keyboard.training import preflight


def check_population(config):
    preflight.check_population(config.data.store, config.train, config.aggregation.rule)


def test_a_cohort_as_large_as_the_population_is_allowed(store):
    people = read_card(store)["populations"]["train"]["clients"]
    check_population(tiny_config(store, f"train.clients_per_round={people}"))
    with pytest.raises(ConfigError, match=f"has {people} train clients. Selecting {people + 1} "):
        check_population(tiny_config(store, f"train.clients_per_round={people + 1}"))


@pytest.mark.parametrize("override", ["train.over_selection=9", "train.min_separation_rounds=9"])
def test_over_selection_and_separation_need_more_clients(store, override):
    check_population(tiny_config(store))
    with pytest.raises(ConfigError, match="Lower `clients_per_round`"):
        check_population(tiny_config(store, override))


@pytest.mark.parametrize(
    "rule, says",
    [
        (
            '{type="bounded_trimmed_mean", attackers=0.2}',
            "= 0.2 of a cohort protects against only 0.04 ",
        ),
        (
            '{type="trimmed_mean", trim_fraction=0.1}',
            "= 0.1 of a cohort protects against only 0.02 ",
        ),
    ],
)
def test_warns_of_a_defence_against_a_smaller_share_of_accounts(store, rule, says):
    rule = f"aggregation.rule={rule}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_population(tiny_config(store, rule))
        check_population(tiny_config(store, "train.client_sampling=proportional"))
    with pytest.warns(UserWarning, match=says) as found:
        check_population(tiny_config(store, rule, "train.client_sampling=proportional"))
    assert "\n" not in str(found[0].message)


def check_defence(rule, *overrides, min_reports=0):
    config = config_lib.loads("", [f"aggregation.rule={rule}", *overrides])
    preflight.check_defence(config.train, config.aggregation.rule, min_reports=min_reports)


@pytest.mark.parametrize(
    "attackers, clients, words",
    [
        (0.3, 20, "in 48 of 1,000 .* 9 that can .* to at least 55, or .* at most 0.177"),
        (0.2, 20, "in 2.59 of 1,000 .* to at least 21, or .* at most 0.177"),
        (0.1, 8, "in 5.02 of 1,000 .* to at least 9, or .* at most 0.064"),
        (0.1, 10, "in 1.63 of 1,000 .* to at least 11, or .* at most 0.089"),
        (0.495, 20, r"0.495 requires .* Set `aggregation.rule.attackers` to at most 0.177\.$"),
        (0.1, 1, r"in 100 of 1,000 .* Set `train.clients_per_round` to at least 9\.$"),
    ],
)
def test_a_cohort_too_small_for_its_defence_is_refused(attackers, clients, words):
    """F4: 0.3 with 20 clients trained in silence."""
    rule = f'{{type="bounded_trimmed_mean", attackers={attackers}}}'
    with pytest.raises(ConfigError, match=words) as error:
        check_defence(rule, f"train.clients_per_round={clients}")
    assert "\n" not in str(error.value)


def test_a_defence_that_keeps_its_promise_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for attackers, clients in [(0.1, 20), (0.1, 9), (0.2, 21), (0.177, 20), (0.064, 8)]:
            rule = f'{{type="bounded_trimmed_mean", attackers={attackers}}}'
            check_defence(rule, f"train.clients_per_round={clients}")
        check_defence('{type="median"}', "train.clients_per_round=2", "train.over_selection=2.0")


def test_warns_if_fast_attackers_break_the_promise():
    with pytest.warns(UserWarning, match=r"over_selection` = 1.3: .* 3 of 1,000 rounds"):
        check_defence(
            '{type="bounded_trimmed_mean", attackers=0.1}',
            "train.clients_per_round=20",
            "train.over_selection=1.3",
        )


def test_warns_if_dropouts_leave_too_small_a_cohort():
    with pytest.warns(UserWarning, match="leaves about 10 of 21 clients") as warned:
        check_defence(
            '{type="bounded_trimmed_mean", attackers=0.2}',
            "train.clients_per_round=21",
            "train.dropout_rate=0.5",
        )
    assert "in 33 of 1,000 such rounds" in str(warned[0].message)  # P(Bin(10, 0.2) > 4) = 0.0328


def test_warns_if_a_deadline_leaves_too_few_devices():
    """A round of `serve-rounds` ends at its deadline with 17 of 21 devices."""
    rule = '{type="bounded_trimmed_mean", attackers=0.2}'
    with pytest.warns(UserWarning, match="allows rounds with 17 of 21 clients: in 2.6 of 1,000"):
        check_defence(rule, "train.clients_per_round=21", min_reports=17)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_defence(rule, "train.clients_per_round=21", min_reports=21)


@pytest.mark.parametrize("path", shipped_configs.CONFIGS, ids=str)
def test_shipped_configs_keep_the_promise_of_their_defence(path):
    config = config_lib.load(path)
    preflight.check_defence(config.train, config.aggregation.rule)


def test_no_store_is_bad_input(tmp_path):
    with pytest.raises(DataError, match="is not a client store"):
        check_population(tiny_config(tmp_path))


def test_train_refuses_before_tensorflow_is_imported(store, tmp_path):
    command = ["train", "--config=configs/demo.toml", f"--store={store}"]
    command += [f"--workdir={tmp_path / 'run'}", "--set=train.clients_per_round=1000"]
    [answer] = answers([command])
    assert answer.code == 2
    assert answer.stderr.splitlines()[-1].startswith(f"error: {store} has ")
    assert answer.stderr.count("error") == 1
    assert "tensorflow" not in answer.modules
    assert not (tmp_path / "run").exists()
