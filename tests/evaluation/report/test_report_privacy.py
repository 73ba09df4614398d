"""The page's curve of epsilon is the curve of the statement."""

import dataclasses

import pytest

from tests.support.fakes import ledger_header
from tff_keyboard.evaluation.report import charts, run_privacy
from tff_keyboard.privacy.claims.guarantee import total_guarantee
from tff_keyboard.privacy.ledger.ledger_header import Ancestor
from tff_keyboard.privacy.registry.tree import Tree

TREE = ledger_header(
    mechanism=Tree(),
    uniform_sampling=False,
    noise_multiplier=5.0,
    key_id="me",
    min_separation_rounds=4,
)


def test_the_curve_includes_earlier_runs_and_the_vocabulary(monkeypatch):
    earlier = Ancestor(
        model="a", people="same", rounds=12, header=dataclasses.replace(TREE, key_id="a")
    )
    header = dataclasses.replace(
        TREE, ancestors=(earlier,), vocabulary_rho=0.1, vocabulary_delta=1e-8
    )
    drawn = {}

    def epsilon_curve(rounds, epsilons, delta, *, projection=False):
        drawn.update(zip(rounds, epsilons, strict=True), delta=delta)
        return "svg"

    monkeypatch.setattr(charts, "epsilon_curve", epsilon_curve)
    assert run_privacy._curve(header, 3) == "svg"
    total = total_guarantee(header, 3)
    assert drawn[3] == pytest.approx(total.epsilon)
    assert drawn["delta"] == total.delta
    unclaimed = dataclasses.replace(earlier, header=None)
    assert run_privacy._curve(dataclasses.replace(header, ancestors=(unclaimed,)), 3) == ""
