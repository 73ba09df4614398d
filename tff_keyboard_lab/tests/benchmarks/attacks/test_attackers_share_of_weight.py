"""The share of the weight that liars have, against NumPy and in limiting cases."""

import gzip

import numpy as np
import pytest

from tff_keyboard.config import config_file
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.training.build import build_cohorts
from tff_keyboard_lab.attacks import attackers
from tff_keyboard_lab.benchmarks.attacks import weight_cap

ROUNDS, SEED = 12, 3


@pytest.fixture
def config(store, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        f'[data]\nstore = "{store}"\n'
        "[client]\nbatch_size = 2\nmax_examples = 5\n"
        f"[train]\nrounds = {ROUNDS}\nclients_per_round = 4\n"
    )
    return str(path)


def words_of(data):
    return np.concatenate([np.ravel(batch["y"]) for batch in data.as_numpy_iterator()])


def has_even_sum(data, share, seed):
    return np.bool_(words_of(data).sum() % 2 == 0)


def test_shares_match_numpy(config, monkeypatch):
    monkeypatch.setattr(attackers, "is_attacker", has_even_sum)
    seats, weights = weight_cap.liar_shares(config, SEED)

    loaded = config_file.load(config, [f"train.seed={SEED}"])
    inputs = build_cohorts(loaded, ClientStore(loaded.data.store))
    cap = 2.0
    for t in range(ROUNDS):
        of_liars = of_all = lies = above = 0
        cohort, _ = inputs.round_input(t + 1, lambda batches, sizes: batches)
        for batches in cohort:
            words = [word for batch in batches for row in batch for word in row[1:]]
            is_liar = sum(words) % 2 == 0
            claim = 1e6 if is_liar else sum(word != 0 for word in words)
            lies, above = lies + is_liar, above + (claim > cap / 2)
            of_all += min(claim, cap)
            of_liars += min(claim, cap) if is_liar else 0
        assert seats[t] == lies / len(cohort)
        assert weights[t] == pytest.approx(of_liars / of_all, rel=1e-12)
        cap = max(2.0, cap * np.exp(above / len(cohort) - 0.5))
    assert 0 < seats.mean() < 1
    assert (weights > seats + 0.01).any()


def test_all_weigh_alike_in_the_first_round(config, monkeypatch):
    monkeypatch.setattr(attackers, "is_attacker", has_even_sum)
    seats, weights = weight_cap.liar_shares(config, SEED)
    assert weights[0] == seats[0]


@pytest.mark.parametrize("liars", [0.0, 1.0])
def test_nobody_or_everybody_lies(config, monkeypatch, liars):
    monkeypatch.setattr(weight_cap, "LIARS", liars)
    for shares in weight_cap.liar_shares(config, SEED):
        np.testing.assert_array_equal(shares, np.full(ROUNDS, liars))


def test_rejects_weights_that_nobody_can_claim(config, tmp_path):
    uniform = tmp_path / "uniform.toml"
    uniform.write_text('base = "config.toml"\n[aggregation]\nclient_weighting = "uniform"\n')
    with pytest.raises(ConfigError, match="client_weighting"):
        weight_cap.liar_shares(str(uniform), SEED)


def test_command_prints_shares_in_percent(config, monkeypatch, capsys):
    monkeypatch.setattr(weight_cap, "LIARS", 0.0)
    assert weight_cap.main(["shares", config, "1"]) == 0
    assert capsys.readouterr().out == (
        f"{config}, seed 1: attackers have 0.0% of the places and 0.0% of the weight, 0.0% in the "
        "worst round\n"
    )


def test_users_with_equal_text_all_count_and_liars_have_two_medians():
    """In the long run, the cap is two medians: a liar has the weight of two others."""
    tokens = np.full(50, 300.0)
    honest = weight_cap.simulate(tokens, 2.0, 0.0)
    assert honest["kept"] == 1.0
    lied = weight_cap.simulate(tokens, 2.0, 0.1)["liars"]
    assert lied == pytest.approx(2 * 0.1 / (2 * 0.1 + 0.9), rel=0.1)


def test_tokens_per_visit_are_those_of_at_most_256_messages(tmp_path):
    path = tmp_path / "users.tsv.gz"
    with gzip.open(path, "wt") as file:
        file.write("a\tone two\n" * 300 + "b\tone\nb\tone two three\n")
    np.testing.assert_allclose(weight_cap.tokens_per_visit(path), [256 * 3, 6])
