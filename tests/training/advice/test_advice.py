"""Advice: arithmetic of rounds, the nearest corpora, a config of this very store."""

import math

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.training.advice import reference
from tff_keyboard.training.advice.advice import LITTLE_TEXT, MUCH_TEXT, advise, training_cost

BASE = "models/base"
PRIVATE = [
    "aggregation.privacy.type=gaussian",
    "aggregation.client_weighting=uniform",
    "train.client_sampling=uniform",
]


def card(
    people=500,
    messages=40_000,
    words=600_000,
    oov_rate=0.05,
    options=None,
    held_out=50,
    **vocabulary,
):
    train = {"clients": people, "messages": messages, "words": words, "oov_rate": oov_rate}
    low = 1 << ((messages // people).bit_length() - 1)
    train["messages_per_client"] = {"bins": {f"{low}-{2 * low - 1}": people}}
    prepared = {"card_format": 1, "vocabulary_size": 10_000, "min_word_count": 1}
    return {
        "populations": {
            "train": train,
            "validation": train | {"clients": 400},
            "held_out": {"clients": held_out, "words": 900 * held_out},
        },
        "vocabulary": {"rows": 10_000, "min_word_users": 2} | vocabulary,
        "options": prepared | (options or {}),
    }


@hypothesis.given(
    people=st.integers(3, 20_000), messages=st.integers(1, 300), words=st.integers(1, 40)
)
@examples(30)
def test_rounds_are_so_many_passes(people, messages, words):
    found = advise(card(people, people * messages, people * messages * words), "s")
    train = found.config.train
    much = people * messages * words >= 1e6
    assert found.recipe == (MUCH_TEXT if much else LITTLE_TEXT)
    of_a_visit = min(messages, 8)  # all have typed alike
    assert train.clients_per_round == max(1, min(16, people // 4))
    passes = 3 if people * messages * words < 5e5 else 6
    a_round = train.clients_per_round * of_a_visit
    assert found.passes == pytest.approx(train.rounds * a_round / (people * messages))
    assert train.rounds >= 300
    if train.rounds > 300:
        assert passes - 1e-9 <= found.passes < passes + a_round / (people * messages) + 1e-9
    else:
        assert found.passes >= passes - 1e-9


@pytest.mark.parametrize("words, recipe", [(2_000_000, MUCH_TEXT), (500_000, LITTLE_TEXT)])
def test_text_is_trained_with_the_options_of_its_recipe(words, recipe):
    found = advise(card(people=14_000, messages=200_000, words=words), "s")
    config = found.config
    assert found.recipe == recipe
    assert config.data.store == "s"
    assert config.train.client_sampling == "proportional"
    assert config.train.max_sampling_ratio == TrainConfig.max_sampling_ratio
    assert config.server.schedule.rounds == 0  # those of the training
    assert config.evaluation.every == config.train.rounds // 10
    assert config.train.final_model == "best"


LITTLE = {"words": 400_000}


@pytest.mark.parametrize(
    ("given", "overrides", "begin"),
    [
        (LITTLE, [], BASE),
        ({"words": 500_000}, [], ""),
        (LITTLE, ["train.seed=2"], BASE),
        (LITTLE, ["model.initial_model=runs/mine"], "runs/mine"),
        (LITTLE, ["model.initial_model="], ""),
        (LITTLE, ["model.units=64"], ""),
        (LITTLE, ["model.type=gru"], ""),
        (LITTLE | {"options": {"language": "de"}}, [], "models/base_de"),
        (LITTLE | {"options": {"lowercase": False}}, [], ""),
        (LITTLE | {"options": {"mode": "whitespace"}}, [], ""),
        (LITTLE, PRIVATE, ""),
    ],
)
def test_little_text_begins_with_the_shipped_model_where_it_fits(given, overrides, begin):
    found = advise(card(**given), "s", overrides)
    assert found.config.model.initial_model == begin
    assert found.config.server.learning_rate == (0.002 if begin.startswith(BASE) else 0.004)
    assert bool(found.warnings) == (given["words"] < 500_000 and not begin)


def test_the_config_has_the_stores_data_and_not_the_recipes():
    prepared = {"max_length": 32, "long_messages": "truncate", "lowercase": False, "seed": 7}
    data = advise(card(options=prepared), 'my "s"').config.data
    assert {key: getattr(data, key) for key in prepared} == prepared
    assert (data.store, data.input) == ('my "s"', ())


def test_the_card_of_a_real_store_is_understood(store):
    found = advise(read_card(store), str(store))
    assert found.config.data.vocabulary_size == 120  # as it was prepared
    assert found.config.train.clients_per_round == found.clients // 4
    assert found.warnings


def test_overrides_change_the_config_and_the_cost():
    found = advise(card(), "s", ["train.rounds=50", "client.max_examples=4"])
    whole = advise(card(), "s")
    assert found.config.train.rounds == 50
    assert found.passes == pytest.approx(50 * 16 * 4 / 40_000)
    assert found.cost.shared < whole.cost.shared / 2
    assert advise(card(), "s", ["model.units=64"]).cost.shared < whole.cost.shared
    assert advise(card(), "s", ["model.type=gru"]).cost is None
    uniform = ["train.client_sampling=uniform", "client.epochs=2"]
    assert advise(card(), "s", uniform).cost.shared > 1.3 * whole.cost.shared
    with pytest.raises(ConfigError, match=r"--set=train\.ruonds=5"):
        advise(card(), "s", ["train.ruonds=5"])


def test_cost_equals_the_cost_of_the_training():
    found = advise(card(rows=2_000), "s")
    train = found.config.train
    assert found.cost == training_cost(
        weights=2_000 * 96 + 452_250,
        rounds=train.rounds,
        clients=16,
        targets=8 * 640_000 / 40_000,
        # Ten times or one more, of 200 of 400 people, the average and the last model.
        validation_targets=math.ceil(train.rounds / (train.rounds // 10)) * 2 * 640_000 / 2,
    )


def test_the_nearest_in_size_are_shown():
    found = advise(card(words=310_000), "s")
    sizes = [corpus.words for corpus in found.nearest]
    assert sizes == sorted(sizes)
    assert len(sizes) == 3
    assert {283_846, 299_902} < set(sizes)
    far = {corpus.words for corpus in reference.corpora()} - set(sizes)
    distance = [abs(math.log(size / 310_000)) for size in sizes]
    assert all(abs(math.log(size / 310_000)) >= max(distance) for size in far)
