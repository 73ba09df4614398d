"""Names of clients: small, without text, and the same packs as from the data in hand."""

import dataclasses
import pickle

import numpy as np
import pytest
import tensorflow as tf

from tests.support.fakes import tiny_config
from tff_keyboard.algorithms.cohort_batcher import CohortBatcher
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.storage.errors import DataError
from tff_keyboard.training.build import build_cohorts, build_recipe
from tff_keyboard.training.client_inputs import evaluation_clients_batches
from tff_keyboard.training.on_cluster.store_references import StoreReference

BATCHER = CohortBatcher(3, is_joined=True)


@pytest.fixture
def opened(store):
    return ClientStore(store)


@pytest.fixture
def config(store):
    return tiny_config(store, "train.clients_per_round=5")


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_train_clients_are_made_as_here(opened, config):
    cohorts = build_cohorts(config, opened)
    groups, facts = cohorts.round_plan(2, BATCHER)
    expected, expected_facts = cohorts.round_input(2, BATCHER)
    recipe = build_recipe(config, opened)
    named = recipe.train_packs(BATCHER, 2, groups)
    sent = pickle.loads(pickle.dumps(named))
    assert facts == expected_facts
    assert_same([pack.make() for pack in sent], expected)


def test_evaluation_clients_are_made_as_here(opened, config):
    here = evaluation_clients_batches(
        opened, "validation", config.evaluation, max_length=config.data.max_length
    )
    recipe = build_recipe(config, opened)
    named = recipe.evaluation_packs(opened, [[1, 0], [2]])
    packs = [pack.make() for pack in named]
    assert [list(pack["ends"]) for pack in packs] == [
        list(np.cumsum([len(here[1]), len(here[0])])),
        [len(here[2])],
    ]


def test_no_text_travels(opened, config):
    recipe = build_recipe(config, opened)
    sent = pickle.dumps(recipe.train_packs(BATCHER, 1, [[i] for i in range(10)]))
    ids = opened.client_ids("train")
    assert not any(client_id.encode() in sent for client_id in ids)
    words = [w for w in opened.vocabulary.words[4:] if len(w) > 5]
    assert not any(word.encode() in sent for word in words if word not in str(recipe))
    longer = pickle.dumps(recipe.train_packs(BATCHER, 1, [[i] for i in range(1010)]))
    assert len(longer) - len(sent) < 30 * 1000


def test_another_store_is_refused(opened, config, store):
    other = StoreReference(str(store.absolute()), "another hash")
    wrong = dataclasses.replace(build_recipe(config, opened), store=other)
    with pytest.raises(DataError, match="differs from the client store of the driver"):
        wrong.train_packs(BATCHER, 1, [[0]])[0].make()
