"""The hook writes first and rolls back exactly."""

import pytest

from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.privacy.ledger.run_header import ledger_header
from tff_keyboard.privacy.ledger_hook import LedgerHook
from tff_keyboard.privacy.mechanisms.mechanism import named
from tff_keyboard.privacy.registry.gaussian import GaussianConfig
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptiveConfig

NOISE = {"noise_multiplier": 1.0}
METRICS = {"aggregator/inner/inner/dp_query_metrics/clip_norm": 0.25, "loss": 3.0}


def header(dp="gaussian", **schedule):
    privacy = {"gaussian": GaussianConfig, "gaussian_adaptive": GaussianAdaptiveConfig}[dp](**NOISE)
    config = AggregationConfig(privacy=privacy, client_weighting="uniform")
    return header_of(config, named(dp), **schedule)


def header_of(config, mechanism, **schedule):
    usual = {"population": 500, "clients_per_round": 10, "selected_per_round": 10}
    usual |= {"min_separation_rounds": 1, "key": None}
    return ledger_header(config, mechanism=mechanism, **(usual | schedule))


def test_each_round_is_recorded_with_its_clip_norm_and_cost(tmp_path):
    path = tmp_path / "privacy_ledger.jsonl"
    hook = LedgerHook(path, header("gaussian_adaptive"), epsilon_every=1)
    hook.restart_after(0)
    for round_num in (1, 2, 3):
        added = hook.before_release(round_num, None, METRICS)
        on_disk, rounds = read_ledger(path)  # before the loop releases the round
        assert rounds[-1] == {"round": round_num, "clip_norm": 0.25}
        assert added["privacy/epsilon"] == guarantee_of(on_disk, round_num).epsilon
    before = path.read_bytes()
    again = LedgerHook(path, header("gaussian_adaptive"), epsilon_every=0)
    again.restart_after(1)
    for round_num in (2, 3):
        again.before_release(round_num, None, METRICS)
    assert path.read_bytes() == before


def test_epsilon_every_several_rounds(tmp_path):
    hook = LedgerHook(tmp_path / "l.jsonl", header(), epsilon_every=2)
    assert hook.before_release(1, None, METRICS) == {}
    assert set(hook.before_release(2, None, METRICS)) == {"privacy/epsilon"}
    with pytest.raises(ValueError, match="`epsilon_every` must be >= 0"):
        LedgerHook(tmp_path / "m.jsonl", header(), epsilon_every=-1)


def test_an_adaptive_round_without_its_clip_norm_is_not_released(tmp_path):
    hook = LedgerHook(tmp_path / "l.jsonl", header("gaussian_adaptive"))
    with pytest.raises(ValueError, match="no clip norm"):
        hook.before_release(1, None, {"loss": 3.0})


def test_uniform_sampling_is_claimed_only_if_cohorts_are_uniform():
    assert header().uniform_sampling
    assert not header(min_separation_rounds=2).uniform_sampling
    assert header(selected_per_round=13).selected_per_round == 13


def test_no_privacy_no_ledger():
    with pytest.raises(ValueError, match="makes no privacy claim"):
        header_of(AggregationConfig(), named("gaussian"))
