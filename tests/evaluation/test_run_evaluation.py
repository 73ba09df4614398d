"""Evaluation of a finished run on the requested clients only."""

import numpy as np
import pytest

from tests.support.fakes import blow_up, save_untrained_run, tiny_config
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.counts import typed_text
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage.errors import DivergedError


@pytest.fixture(scope="module")
def run(store, tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluation") / "run"
    return save_untrained_run(path, tiny_config(store, "model.units=4", "model.embedding_size=3"))


@pytest.mark.parametrize("population", ["held_out", "validation", "train"])
def test_evaluates_only_the_requested_clients(run, store, population):
    actual = run_evaluation.evaluate_run(run, population, max_length=0)
    opened = ClientStore(store)
    people = sorted(opened.client_ids(population), key=opened.pseudonym)
    assert actual.text.people == tuple(map(opened.pseudonym, people))
    typed = [opened.words(population, person) for person in people]
    assert actual.text.words == sum(len(message) for own in typed for message in own)
    assert actual.sums["examples"].tolist() == [len(own) for own in typed]
    assert actual.text.name == population


def test_rows_match_their_pseudonyms(run, store):
    """Compares with the sums and slices of each client alone, by the client's name."""
    opened = ClientStore(store)
    actual = run_evaluation.evaluate_run(run, "held_out")
    predictor = KerasPredictor(*load_model(run))
    row = {name: position for position, name in enumerate(actual.text.people)}
    all_of_them = typed_text.of_population(opened, "held_out")
    for position in range(3):
        alone = run_evaluation.evaluate_named(
            predictor,
            actual.model,
            typed_text.some_clients(all_of_them, slice(position, position + 1)),
            store=opened,
        )
        (name,) = alone.text.people
        for key, values in alone.sums.items():
            np.testing.assert_allclose(actual.sums[key][row[name]], values[0], rtol=1e-4, atol=1e-4)
        for family, slices in alone.slices.items():
            for label, sums in slices.items():
                tokens = actual.slices[family][label]["tokens"]
                assert tokens[row[name]] == sums["tokens"][0]


def test_cached_evaluation_belongs_to_the_weights(run, store, tmp_path):
    first = run_evaluation.cached_evaluation(run, "validation")
    assert run_evaluation.cached_evaluation(run, "validation").to_json() == first.to_json()
    other = save_untrained_run(tmp_path / "other", tiny_config(store, "model.units=4"), seed=2)
    assert run_evaluation.weights_digest(other) != run_evaluation.weights_digest(run)


def test_diverged_model_is_one_line(store, tmp_path):
    run = save_untrained_run(tmp_path / "run", tiny_config(store, "model.units=4"))
    blow_up(run)
    with pytest.raises(DivergedError, match=r"run: the model's predictions are NaN"):
        run_evaluation.evaluate_run(run, "validation")
