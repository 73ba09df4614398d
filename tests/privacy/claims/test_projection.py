"""Simulated noise of a larger cohort: its size, its epsilon, and its label in all outputs."""

import dataclasses

import numpy as np
import pytest

from tests.support.aggregation_fakes import VALUE_TYPE, WEIGHT_TYPE
from tests.support.fakes import ledger_header
from tests.support.noise_fakes import noised
from tff_keyboard.aggregators.registry.private_fedatt import PrivateFedAttConfig
from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.privacy.claims.guarantee import composed, guarantee_of, history
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.privacy.ledger_hook import LedgerHook
from tff_keyboard.privacy.registry.blt import BltConfig
from tff_keyboard.privacy.registry.gaussian import GaussianConfig
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptiveConfig
from tff_keyboard.training.aggregation import build_aggregator

SMALL = ledger_header(noise_cohort_size=500, key_id="a")
LARGE = ledger_header(clients_per_round=500, selected_per_round=500, population=50_000, key_id="a")


def config(privacy):
    return AggregationConfig(privacy=privacy, client_weighting="uniform")


@pytest.mark.slow
def test_epsilon_is_that_of_the_larger_federation_and_says_so():
    found = guarantee_of(SMALL, 7)
    assert found.epsilon == guarantee_of(LARGE, 7).epsilon
    assert found.method.startswith("PROJECTION to 500 clients per round, ")
    together = composed([*history(SMALL, 7), *history(dataclasses.replace(LARGE, key_id="b"), 7)])
    assert together.method.startswith("PROJECTION")
    assert together.epsilon > found.epsilon


@pytest.mark.slow
def test_real_release_has_the_smaller_noise():
    assert SMALL.unprojected.noise_multiplier == pytest.approx(1.0 * 10 / 500)
    assert SMALL.unprojected.noise_cohort_size == 0
    assert LARGE.unprojected == LARGE == LARGE.projected


@pytest.mark.slow
def test_the_noise_of_the_mean_is_that_of_the_larger_cohort():
    privacy = GaussianConfig(clip_norm=0.5, noise_multiplier=3.0, noise_cohort_size=400)
    spread = []
    for one in (privacy, dataclasses.replace(privacy, noise_cohort_size=0)):
        factory = build_aggregator(config(one), clients_per_round=40, seed=0)
        process = noised(factory.create(VALUE_TYPE, WEIGHT_TYPE))
        state, values = process.initialize(), []
        for _ in range(20):
            output = process.next(state, [], [])
            state = output.state
            values.append(np.concatenate([np.ravel(x) for x in output.result]))
        spread.append(np.concatenate(values).std())
    assert spread[0] == pytest.approx(3.0 * 0.5 / 400, rel=0.15)
    assert spread[1] == pytest.approx(3.0 * 0.5 / 40, rel=0.15)


@pytest.mark.slow
def test_the_statement_and_the_metric_are_labelled(tmp_path):
    path = tmp_path / "privacy_ledger.jsonl"
    ledger = PrivacyLedger(path, SMALL)
    ledger.record(1, clip_norm=0.5)
    text = privacy_statement(path)
    assert text.startswith("PROJECTION: the epsilon below holds for a federation with 500 clients")
    assert "from a population of 50000" in text
    assert "The released models of this run have epsilon" in text
    assert "epsilon (projection)" in text
    hook = LedgerHook(tmp_path / "other.jsonl", SMALL, epsilon_every=1)
    assert list(hook.before_release(1, None, {})) == ["privacy/epsilon_projection"]


@pytest.mark.slow
def test_unsupported_projections_are_rejected():
    with pytest.raises(ValueError, match="only the noise of a mean"):
        AggregationConfig(
            rule=PrivateFedAttConfig(),
            privacy=GaussianConfig(noise_multiplier=1.0, noise_cohort_size=100),
            client_weighting="uniform",
        )
    with pytest.raises(ValueError, match="needs a fixed clip norm"):
        config(GaussianAdaptiveConfig(noise_multiplier=1.0, noise_cohort_size=100))
    with pytest.raises(ValueError, match=r"must be 0 or >= `clients_per_round` = 40, got 30"):
        build_aggregator(
            config(BltConfig(noise_multiplier=1.0, noise_cohort_size=30)),
            clients_per_round=40,
            seed=0,
        )
