"""The attack table: its model against a numerical gradient, cells, and the Markdown they become."""

import json

import numpy as np
import pytest

from benchmarks import attack_table
from benchmarks import log_bilinear as model
from benchmarks.attack_table import Data, Setting
from tff_keyboard.config.rule_config import RULES

SETTING = Setting(
    vocabulary=30, clients=5, rounds=3, start_rounds=1, words_per_client=40, trigger=5, target=9
)
RNG = np.random.default_rng(0)


def some_positions(number):
    return model.Positions(
        RNG.integers(4, 30, (number, 2)).astype(np.int32),
        RNG.integers(4, 30, number).astype(np.int32),
    )


DATA = Data([some_positions(40) for _ in range(12)], some_positions(100))


def test_the_gradient_is_that_of_the_loss():
    weights = [w.astype(np.float64) for w in model.initial_weights(30, 4, 0)]
    batch = some_positions(20)
    grads, _ = model.gradient(weights, batch)
    for k, (w, g) in enumerate(zip(weights, grads, strict=True)):
        place = tuple(RNG.integers(0, n) for n in w.shape)
        losses = []
        for step in (1e-5, -1e-5):
            moved = [x.copy() for x in weights]
            moved[k][place] += step
            losses.append(model.gradient(moved, batch)[1])
        assert g[place] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-4, abs=1e-8)


def test_positions_have_two_words_of_context():
    found = model.positions([np.array([7, 90, 9])], 30, most=10)
    assert found.contexts.tolist() == [[1, 1], [7, 1], [3, 7], [9, 3]]
    assert found.targets.tolist() == [7, 3, 9, 2]


class PlainMean:
    """A rule without TFF."""

    name = "plain"

    def begin(self):
        pass

    def __call__(self, deltas, weights, losses):
        return np.average(deltas, axis=0, weights=weights)


def cell(attack, share=0.2, rule=None):
    start = attack_table.start_weights(DATA, SETTING, 1)
    return attack_table.run_cell(rule or PlainMean(), attack, share, 1, DATA, SETTING, start)


def test_cells_repeat_and_attacks_change_them():
    clean = cell("clean")
    assert clean["attackers"] == clean["most_attackers"] == clean["share"] == 0
    again = cell("clean")
    assert again["perplexity"] == clean["perplexity"]
    for attack in ("weight_lie", "boost", "label_shuffle", "backdoor", "quiet_backdoor"):
        attacked = cell(attack)
        assert attacked["attackers"] > 0
        assert attacked["perplexity"] != clean["perplexity"]


def test_cohorts_hold_as_many_attackers_as_are_drawn(monkeypatch):
    share, honest_sent = 0.25, []
    bad = attack_table.attackers_of(DATA, share, 1)
    assert len(bad) == 3  # of twelve
    assert bad == attack_table.attackers_of(DATA, share, 1)
    assert bad != attack_table.attackers_of(DATA, share, 2)
    send = attack_table.collusion.sent_by_attackers

    def watched(attack, view):
        honest_sent.append(len(view.honest))
        return send(attack, view)

    monkeypatch.setattr(attack_table.collusion, "sent_by_attackers", watched)
    found = cell("boost", share)
    drawn = [
        sum(i in bad for i in attack_table.cohort(DATA, SETTING, (1, number)))
        for number in range(SETTING.rounds)
    ]
    assert honest_sent == [SETTING.clients - count for count in drawn if count]
    assert found["most_attackers"] == max(drawn)
    assert found["attackers"] == pytest.approx(np.mean(drawn), abs=0.01)


@pytest.mark.parametrize("name", [*RULES, "mean_unprotected", "bounded_trimmed_mean_20"])
def test_rules_are_those_of_a_shipped_config(name):
    config = attack_table.run_config(name).aggregation
    shipped = attack_table.run_config("mean_unprotected").aggregation
    assert name.startswith(config.rule.name)
    if name != "private_fedatt":  # which needs equal weights
        assert config.client_weighting == shipped.client_weighting == "tokens"


def test_a_frozen_server_learns_nothing():
    frozen = attack_table.Rule(attack_table.FROZEN, [], SETTING)
    start = attack_table.start_weights(DATA, SETTING, 1)
    found = attack_table.run_cell(frozen, "clean", 0.0, 1, DATA, SETTING, start)
    assert found["perplexity"] == round(model.evaluate(start, DATA.test)["perplexity"], 3)


def test_the_table_is_about_each_rules_own_clean_training():
    cells = [
        {
            "rule": "mean",
            "attack": attack,
            "share": share,
            "seed": seed,
            "top_1": top,
            "hit": 100.0 * (seed - 1),
        }
        for attack, share, seed, top in [
            ("clean", 0.0, 1, 9.0),
            ("clean", 0.0, 2, 10.0),
            ("boost", 0.1, 1, 4.0),
            ("boost", 0.1, 2, 4.0),
            ("backdoor", 0.1, 1, 9.5),
            ("backdoor", 0.1, 2, 9.5),
        ]
    ]
    text = attack_table.table(cells)
    assert "10% attackers" in text
    row = "| mean | 9.50 | -5.50 [-6.00, -5.00] | +0.00 [-0.50, +0.50], hit 50 [0, 100] % |"
    assert row in text


def test_a_stopped_table_goes_on_and_shows_all_cells_of_its_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attack_table, "read_data", lambda *args, **kwargs: DATA)
    monkeypatch.setattr(attack_table, "Setting", lambda **changes: SETTING)
    flags = ["--store=none", f"--workdir={tmp_path}", "--rules=frozen", "--attacks=boost"]
    attack_table.main(flags)
    (made,) = tmp_path.glob("*.json")  # a server that ignores everybody is not attacked
    assert made.name == "frozen-clean-0-1.json"
    cell = json.loads(made.read_text())
    other = {**cell, "rule": "mean", "attack": "boost", "share": 0.1, "top_1": 1.0}
    (tmp_path / "mean-boost-0.1-1.json").write_text(json.dumps(other))
    clean = {**other, "attack": "clean", "share": 0.0, "top_1": 3.0}
    (tmp_path / "mean-clean-0-1.json").write_text(json.dumps(clean))
    monkeypatch.setattr(attack_table, "run_cell", lambda *args: pytest.fail("trained again"))
    capsys.readouterr()
    attack_table.main(flags)
    assert "| mean | 3.00 | -2.00 |" in capsys.readouterr().out
