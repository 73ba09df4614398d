"""Random rehearsal: how many general messages, which, and what clients make of them."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.cohort_batcher import CohortBatcher
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.config.sections.fine_tuning_config import (
    LearningWithoutForgetting,
    RehearsalMethod,
)
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.training.build import build_cohorts, build_rehearsal
from tff_keyboard.training.client_inputs import BYTES_PER_PARAMETER

SMALL = DataConfig(synthetic_typists=30, synthetic_messages=10, vocabulary_size=100)

AS_DATASETS = CohortBatcher(None)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Users, and a general corpus of other text with the same vocabulary."""
    out = tmp_path_factory.mktemp("data")
    prepare.prepare(SMALL, out / "users")
    general = dataclasses.replace(
        SMALL, seed=9, vocabulary_path=str(out / "users" / "vocabulary.txt"), synthetic_messages=40
    )
    prepare.prepare(general, out / "general")
    return ClientStore(out / "users"), ClientStore(out / "general")


@pytest.fixture(scope="module")
def rehearsals(stores):
    return {portion: Rehearsal(stores[1], portion) for portion in (0.25, 0.5, 0.75)}


def cohort_inputs(config, users, general=None):
    rehearsal = build_rehearsal(config, general)
    return build_cohorts(config, users, rehearsal, num_parameters=11)


def all_messages(store, population="train"):
    return [m for c in store.client_ids(population) for m in store.messages(population, c)]


def run_config(**fine_tuning):
    text = "[client]\nmax_examples = 6\nbatch_size = 4\n[train]\nclients_per_round = 3\n"
    config = config_lib.loads(text + "over_selection = 2.0\ndropout_rate = 0.3\n")
    return dataclasses.replace(
        config, fine_tuning=dataclasses.replace(config.fine_tuning, **fine_tuning)
    )


@given(st.sampled_from([0.25, 0.5, 0.75]), st.integers(0, 200))
@examples(60)
def test_share_of_general_messages_is_the_portion(rehearsals, portion, own):
    general = rehearsals[portion].num_messages(own)
    assert abs(general - portion * (own + general)) <= 0.5 * (1 - portion) + 1e-9 or general > 200


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=3))
@examples(30)
def test_messages_of_the_corpus_are_drawn_without_replacement(stores, rehearsals, seed):
    corpus = [m.tobytes() for m in all_messages(stores[1])]
    drawn = rehearsals[0.5].messages(20, seed)
    assert len(drawn) == 20
    counts = {text: corpus.count(text) for text in {m.tobytes() for m in drawn}}
    for text, count in counts.items():
        assert 1 <= [m.tobytes() for m in drawn].count(text) <= count
    again = rehearsals[0.5].messages(20, seed)
    assert [m.tobytes() for m in drawn] == [m.tobytes() for m in again]


def test_other_seeds_draw_others(rehearsals):
    a, b = (rehearsals[0.5].messages(50, (1, 2, client)) for client in (3, 4))
    assert {m.tobytes() for m in a} != {m.tobytes() for m in b}


def test_whole_corpus_at_most(stores, rehearsals):
    corpus = all_messages(stores[1])
    drawn = rehearsals[0.75].messages(10**6, (0,))
    assert sorted(m.tobytes() for m in drawn) == sorted(m.tobytes() for m in corpus)


def test_bytes_are_two_a_word_and_two_a_message(rehearsals):
    messages = [np.arange(4, 9), np.arange(4, 5)]
    assert rehearsals[0.5].num_bytes(messages) == 2 * (5 + 1 + 1 + 1)


def test_clients_train_on_own_and_general_messages(stores):
    users, general = stores
    plain = cohort_inputs(run_config(), users)
    mixed = cohort_inputs(
        run_config(method=RehearsalMethod(portion=0.5), general_store="x"), users, general
    )
    for round_num in (1, 2):
        own_data, own = plain.round_input(round_num, AS_DATASETS)
        both_data, both = mixed.round_input(round_num, AS_DATASETS)
        assert own["cohort"] == both["cohort"]
        assert both["examples"] == 2 * own["examples"]
        corpus = {tuple(m) for m in all_messages(general)}  # none is longer than a sequence
        clients = [_rows(client) for client in both_data]
        for own_rows in map(_rows, own_data):
            # What the client typed itself is what it trains on without rehearsal, too. It is found
            # by that: the larger clients of a round come first, and its size has changed.
            (rows,) = (rows for rows in clients if not Counter(own_rows) - Counter(rows))
            assert len(rows) == 2 * len(own_rows)
            left = Counter(rows) - Counter(own_rows)
            assert all(tuple(row[1:-1]) in corpus or tuple(row[1:]) in corpus for row in left)
        assert own["bytes_rehearsal"] == 0
        assert both["bytes_down"] == own["bytes_down"] + both["bytes_rehearsal"]
        # Dropped clients were sent theirs, so there is more than the reporting ones trained on.
        trained = 2 * sum(len(row) - 1 for client in both_data for row in _rows(client))
        own_part = 2 * sum(len(row) - 1 for client in own_data for row in _rows(client))
        assert both["bytes_rehearsal"] > trained - own_part
        assert own["bytes_up"] == both["bytes_up"]
        assert own["bytes_up"] == own["clients"] * 11 * BYTES_PER_PARAMETER
        assert own["bytes_down"] == own["clients_selected"] * 11 * BYTES_PER_PARAMETER


def test_without_rehearsal_nothing_has_changed(stores):
    """The mixing must not touch the draws of ordinary runs."""
    users, general = stores
    first = cohort_inputs(run_config(), users).round_input(1, AS_DATASETS)
    second = cohort_inputs(
        run_config(method=LearningWithoutForgetting(), general_store="x"), users, general
    )
    for a, b in zip(first[0], second.round_input(1, AS_DATASETS)[0], strict=True):
        assert _rows(a) == _rows(b)


def _rows(dataset):
    """Each message of a client: BOS, words, EOS as far as they were not cut."""
    rows = []
    for batch in dataset.as_numpy_iterator():
        for x, y in zip(batch["x"], batch["y"], strict=True):
            length = np.count_nonzero(y != PAD)
            rows.append((int(x[0]), *y[:length].tolist()))
    return rows


def test_rejects_invalid_rehearsal(stores, tmp_path):
    with pytest.raises(ValueError, match="portion"):
        Rehearsal(stores[1], 1.0)
    with pytest.raises(ValueError, match="general_store"):
        cohort_inputs(run_config(method=RehearsalMethod(), general_store="x"), stores[0])
    with pytest.raises(config_lib.ConfigError, match=r"fine_tuning\.general_store"):
        config_lib.loads('[fine_tuning.method]\ntype = "rehearsal"')


@pytest.mark.slow
def test_a_client_left_out_changes_nothing_for_the_others(stores):
    users, _ = stores
    config = run_config()
    everyone = cohort_inputs(config, users)
    left_out = 0
    without = cohort_inputs(
        dataclasses.replace(
            config, train=dataclasses.replace(config.train, excluded_client=left_out)
        ),
        users,
    )
    seen = 0
    for round_num in range(1, 30):
        all_data, facts = everyone.round_input(round_num, AS_DATASETS)
        data, fewer = without.round_input(round_num, AS_DATASETS)
        seen += facts["clients"] - fewer["clients"]
        remaining = [_rows(d) for d in data]
        assert [rows for rows in map(_rows, all_data) if rows in remaining] == remaining
    assert seen > 0
