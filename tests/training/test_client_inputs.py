"""What the clients of a round are handed: who, which messages, how often, in which order."""

import numpy as np
import pytest

from tests.support.fakes import tiny_config
from tff_keyboard.algorithms.cohort_batcher import CohortBatcher
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD, SPECIAL_IDS
from tff_keyboard.training.build import build_cohorts
from tff_keyboard.training.client_inputs import evaluation_clients


def as_they_are(clients, sizes):
    """`RoundInput` that leaves batches and sizes to the test."""
    return list(zip(clients, sizes, strict=True))


def inputs(store, *overrides):
    whole = "data.max_length=200"
    return build_cohorts(tiny_config(store, whole, *overrides), ClientStore(store))


def everyone(store):
    """Overrides by which each round has all train clients."""
    return f"train.clients_per_round={len(ClientStore(store).client_ids('train'))}"


def messages(batches):
    """The words of each row of batches, in order; the ends of the message are left out."""
    return [
        tuple(word for word in row if word not in SPECIAL_IDS[:3])
        for batch in batches
        for row in batch.tolist()
    ]


def test_clients_have_messages_of_the_train_population(store):
    typed = {
        tuple(ids.tolist())
        for person in ClientStore(store).client_ids("train")
        for ids in ClientStore(store).messages("train", person)
    }
    delivered, facts = inputs(store, everyone(store)).round_input(1, as_they_are)
    found = [message for batches, _ in delivered for message in messages(batches)]
    assert set(found) <= typed
    assert facts["examples"] == len(found)
    for batches, size in delivered:
        assert size == sum(np.count_nonzero(batch[:, 1:] != PAD) for batch in batches)
    assert facts["tokens"] == sum(size for _, size in delivered)


def test_the_key_of_a_private_run_draws_its_cohorts_and_nothing_else(store):
    config, users = tiny_config(store), ClientStore(store)
    plain = build_cohorts(config, users)
    keyed = build_cohorts(config, users, cohort_key=b"a" * 32)
    rounds = range(1, 6)
    drawn = [sorted(keyed.selected(t)) for t in rounds]
    assert drawn != [sorted(plain.selected(t)) for t in rounds]
    for one, other in zip(plain.batches(1, 0), keyed.batches(1, 0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_epoch_goes_over_the_same_messages_in_another_order(store):
    once, facts_once = inputs(store).round_input(1, as_they_are)
    thrice, facts_thrice = inputs(store, "client.epochs=3").round_input(1, as_they_are)
    assert facts_thrice["tokens"] == 3 * facts_once["tokens"]
    orders = set()
    for (one, _), (three, _) in zip(once, thrice, strict=True):
        assert sorted(messages(three)) == sorted(3 * messages(one))
        per_epoch = len(three) // 3
        orders.add(messages(three[:per_epoch]) == messages(three[per_epoch : 2 * per_epoch]))
    assert False in orders


def test_a_client_draws_anew_in_every_round_and_the_same_again(store):
    rounds = inputs(store, everyone(store), "client.max_examples=4", "client.batch_size=2")
    first, second, again = (rounds.round_input(n, as_they_are)[0] for n in (1, 2, 1))
    sets = [{frozenset(messages(batches)) for batches, _ in found} for found in (first, second)]
    assert sets[0] != sets[1]
    for (one, _), (other, _) in zip(first, again, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_other_seeds_draw_other_messages(store):
    found = [
        [
            messages(batches)
            for batches, _ in inputs(store, everyone(store), f"train.seed={seed}").round_input(
                1, as_they_are
            )[0]
        ]
        for seed in (1, 2)
    ]
    assert sorted(found[0]) != sorted(found[1])


def test_clients_with_more_text_are_sampled_more_often(store):
    one_a_round = ("train.clients_per_round=1", "client.max_examples=2")
    alike, proportional = (
        inputs(store, *one_a_round),
        inputs(store, *one_a_round, "train.client_sampling=proportional"),
    )
    rounds = range(1, 2001)
    people = alike.population
    drawn = np.bincount([proportional.selected(t)[0] for t in rounds], minlength=people)
    share = np.ceil(ClientStore(store).num_messages("train") / 2)
    assert len(set(share)) > 1
    expected = len(rounds) * share / share.sum()
    assert np.all(np.abs(drawn - expected) < 5 * np.sqrt(expected))
    assert any(alike.selected(t) != proportional.selected(t) for t in rounds)


@pytest.mark.parametrize("position", [0, 2])
def test_left_out_client_is_selected_but_not_trained(store, position):
    everybody, facts_all = inputs(store, everyone(store)).round_input(1, as_they_are)
    override = f"train.excluded_client={position}"
    without, facts = inputs(store, everyone(store), override).round_input(1, as_they_are)
    assert facts["clients"] == facts_all["clients"] - 1 == len(without)
    assert facts["clients_selected"] == facts_all["clients_selected"]
    assert facts["cohort"] != facts_all["cohort"]
    person = ClientStore(store).client_ids("train")[position]
    own = {tuple(ids.tolist()) for ids in ClientStore(store).messages("train", person)}
    left = [sorted(messages(b)) for b, _ in everybody]
    for batches, _ in without:
        left.remove(sorted(messages(batches)))
    (missing,) = left
    assert set(missing) <= own


@pytest.mark.parametrize("population", ["validation", "held_out"])
def test_evaluation_clients_belong_to_their_population(store, population):
    opened = ClientStore(store)
    whole = tiny_config(store, "evaluation.clients=0").evaluation
    assert evaluation_clients(opened, population, whole) == opened.client_ids(population)
    two = tiny_config(store, "evaluation.clients=2").evaluation
    chosen = evaluation_clients(opened, population, two)
    assert len(set(chosen)) == 2
    assert set(chosen) <= set(opened.client_ids(population))
    assert chosen == evaluation_clients(opened, population, two)


def planned(path, *overrides, rehearsal=False):
    store = ClientStore(path)
    return build_cohorts(
        tiny_config(path, *overrides), store, Rehearsal(store, 0.4) if rehearsal else None
    )


@pytest.mark.parametrize(
    "overrides, rehearsal",
    [
        ((), False),
        (("client.max_examples=0", "data.max_length=3", "client.epochs=2"), False),
        (("data.max_length=3", "data.long_messages=truncate"), False),
        (("train.excluded_client=2", "train.clients_per_round=9"), False),
        (("train.over_selection=1.5", "train.dropout_rate=0.3", "data.max_length=4"), True),
    ],
    ids=["demo", "cut", "kept", "left_out", "rehearsal"],
)
@pytest.mark.parametrize(
    "batcher", [CohortBatcher(None), CohortBatcher(3, True)], ids=["one", "packs"]
)
def test_the_plan_of_a_round(store, overrides, rehearsal, batcher):
    cohorts = planned(store, *overrides, rehearsal=rehearsal)
    for round_num in (1, 2):
        groups, facts = cohorts.round_plan(round_num, batcher)
        shown = []

        def record(clients, sizes, shown=shown):
            shown[:] = [[clients[p] for p in group] for group in batcher.plan(sizes)]
            return shown

        _, expected = cohorts.round_input(round_num, record)
        assert facts == expected
        made = [[cohorts.batches(round_num, index) for index in group] for group in groups]
        for ours, theirs in zip(made, shown, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                for batch, other in zip(a, b, strict=True):
                    np.testing.assert_array_equal(batch, other)
