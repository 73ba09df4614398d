"""The ancestors of an initial model, and their effect on the statement."""

import dataclasses
import json
import pathlib
import re
import shutil

import pytest

from tests.support.fakes import ledger_header
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims import composed_statement
from tff_keyboard.privacy.claims.epsilon_text import epsilon_in_words
from tff_keyboard.privacy.claims.guarantee import (
    Release,
    composed,
    distinct,
    guarantee_of,
    history,
    total_guarantee,
)
from tff_keyboard.privacy.claims.plan_remarks import plan_remarks, resumed_line
from tff_keyboard.privacy.claims.statement import labels_of, privacy_statement
from tff_keyboard.privacy.ledger import client_digests
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, EVALUATION
from tff_keyboard.privacy.ledger.lineage import (
    ancestors,
    ledger_of,
    record_origin,
)
from tff_keyboard.privacy.ledger.origin import read_origin
from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.privacy.registry.tree import Tree
from tff_keyboard.storage.errors import CheckFailed, RunDirectoryError
from tff_keyboard.storage.model_description import check_root_of_run, read_description
from tff_keyboard.storage.run_directory import RunDirectory

OURS = ["ann", "bob", "eve"]
TREE = ledger_header(mechanism=Tree(), uniform_sampling=False, min_separation_rounds=4)


def make_run(path, client_ids, *, header=None, rounds=3, initial_model=""):
    """Creates the part of a run directory that lineage reads."""
    (path / "model").mkdir(parents=True)
    (path / "config.toml").write_text(f'[model]\ninitial_model = "{initial_model}"\n')
    client_digests.write(path / "client_digests", client_digests.salted(client_ids))
    if header is not None:
        ledger = PrivacyLedger(path / "privacy_ledger.jsonl", header)
        for number in range(1, rounds + 1):
            ledger.record(number)
    return path


def found(initial_model):
    return ancestors(str(initial_model), ours=[client_digests.salted(OURS)])


def text_of(tmp_path, **changes):
    header = dataclasses.replace(TREE, key_id="me", initial_model="x", **changes)
    path = make_run(tmp_path / "text", OURS, header=header) / "privacy_ledger.jsonl"
    assert read_ledger(path)[0] == header  # ancestors survive JSON
    return privacy_statement(path)


def test_random_weights_have_no_ancestors():
    assert found("") == ()


def test_ancestor_without_privacy_on_the_same_clients_voids_the_guarantee(tmp_path):
    before = found(make_run(tmp_path / "plain", OURS))
    assert [(one.people, one.header) for one in before] == [("same", None)]
    text = text_of(tmp_path, ancestors=before)
    assert text.startswith("NO CLAIM: the initial model")
    assert "without privacy on all of these clients" in text
    assert re.search(r"^epsilon +NO CLAIM", text, re.MULTILINE)


def test_unknown_ancestor_voids_the_guarantee(tmp_path):
    (tmp_path / "model").mkdir()
    before = found(tmp_path / "model")
    assert [one.people for one in before] == ["unknown"]
    assert "NO CLAIM" in text_of(tmp_path, ancestors=before)


@pytest.mark.parametrize(("rehearsed", "claims"), [(["dan"], True), (["dan", OURS[0]], False)])
def test_rehearsed_clients_are_not_covered(tmp_path, rehearsed, claims):
    run = make_run(tmp_path / "first", [*OURS, *rehearsed], header=TREE)
    config = run / "config.toml"
    config.write_text(config.read_text() + '[fine_tuning]\ngeneral_store = "general"\n')
    assert found(run)[0].header is None  # from a version without such digests
    client_digests.write(run / "rehearsed_client_digests", client_digests.salted(rehearsed))
    assert (found(run)[0].header is not None) == claims
    assert "clients of the general corpus" in privacy_statement(run / "privacy_ledger.jsonl")


def test_ancestor_on_other_clients_costs_nothing(tmp_path):
    before = found(make_run(tmp_path / "plain", ["dan"]) / "model")
    assert [one.people for one in before] == ["none"]
    text = text_of(tmp_path, ancestors=before)
    assert "NO CLAIM" not in text
    assert "(other clients)" in text
    header = dataclasses.replace(TREE, ancestors=before)
    assert total_guarantee(header, 3) == total_guarantee(TREE, 3)


def test_private_ancestor_on_the_same_clients_composes(tmp_path):
    first = make_run(tmp_path / "first", OURS, header=dataclasses.replace(TREE, key_id="first"))
    before = found(first)
    header = dataclasses.replace(TREE, key_id="me", ancestors=before)
    total, alone = total_guarantee(header, 3), total_guarantee(TREE, 3)
    assert total.rho == pytest.approx(2 * alone.rho)
    assert total.epsilon > 1.3 * alone.epsilon
    text = text_of(tmp_path, ancestors=before)
    assert f"{total.epsilon:.2f}" in text
    assert f"of this run alone  {alone.epsilon:.2f}" in text


def test_ancestor_of_an_ancestor_counts(tmp_path):
    oldest = make_run(tmp_path / "oldest", OURS)
    middle = make_run(tmp_path / "middle", ["dan"], header=TREE, initial_model=oldest)
    assert [one.people for one in found(middle)] == ["none", "same"]
    header = dataclasses.replace(TREE, ancestors=found(middle))
    assert total_guarantee(header, 3) is None


def test_run_without_digests_has_unknown_clients(tmp_path):
    run = make_run(tmp_path / "old", OURS)
    (run / "client_digests").unlink()
    assert found(run)[0].people == "unknown"


def test_digests_of_version_0_2_0_are_found_under_their_old_name(tmp_path):
    run = make_run(tmp_path / "old", ["dan"])
    (run / "client_digests").rename(run / "people_digests")
    assert found(run)[0].people == "none"


def test_composition_adds_up_by_hand():
    """Two unsampled runs and a sampled one: RDP of the parts, where rho counts four times."""
    sampled = ledger_header(noise_multiplier=2.0, key_id="s")
    alone = composed(history(sampled, 100))
    trees = [dataclasses.replace(TREE, key_id=name, noise_multiplier=5.0) for name in "ab"]
    both = composed([r for tree in trees for r in history(tree, 8)])
    assert both.adjacency == "zero out one client's contributions"
    all_three = composed([r for h in (*trees, sampled) for r in history(h, 8)])
    assert all_three.adjacency == "replace one client"
    assert all_three.epsilon > both.epsilon
    # An upper bound by hand at one RDP order; the total is not below the largest part.
    assert all_three.epsilon >= composed(history(sampled, 8)).epsilon
    assert alone.method == "RDP"


def test_more_releases_of_a_discrete_run_cost_no_less():
    discrete = ledger_header(
        mechanism=Gaussian(is_discrete=True), uniform_sampling=False, key_id="d"
    )
    alone = total_guarantee(discrete, 1)
    with_words = dataclasses.replace(discrete, vocabulary_sha256="v", vocabulary_rho=1e-4)
    both = total_guarantee(with_words, 1)
    assert both.rho == pytest.approx(alone.rho + 1e-4)
    assert both.epsilon > alone.epsilon
    assert both.method == "zCDP, composed, RDP conversion"


def test_a_noiseless_part_makes_it_infinite():
    bare = dataclasses.replace(TREE, noise_multiplier=0.0)
    private = dataclasses.replace(TREE, key_id="a")
    found_ = composed([*history(bare, 2), *history(private, 2)])
    assert found_.epsilon == float("inf")


def test_a_private_vocabulary_is_counted_once():
    facts = {"vocabulary_sha256": "v", "vocabulary_rho": 0.5, "vocabulary_delta": 1e-8}
    runs = [dataclasses.replace(TREE, key_id=name, **facts) for name in "ab"]
    one, two = (composed([r for h in runs[:n] for r in history(h, 3)]) for n in (1, 2))
    rho = total_guarantee(TREE, 3).rho
    assert one.rho == pytest.approx(rho + 0.5)
    assert two.rho == pytest.approx(2 * rho + 0.5)
    assert one.delta == pytest.approx(TREE.delta + 1e-8)
    runs = [dataclasses.replace(run, vocabulary_choice=run.key_id) for run in runs]
    twice = composed([r for h in runs for r in history(h, 3)])  # two choices of the same words
    assert twice.rho == pytest.approx(2 * rho + 1.0)
    assert twice.delta == pytest.approx(TREE.delta + 2e-8)


def test_several_runs_compose_by_population(tmp_path):
    headers = {name: dataclasses.replace(TREE, key_id=name) for name in "abc"}
    who = {"a": OURS, "b": ["eve", "dan"], "c": ["zoe"]}
    runs = {
        name: composed_statement.LedgerAndClients.of_run(
            make_run(tmp_path / name, who[name], header=header)
        )
        for name, header in headers.items()
    }
    text = composed_statement.composed_statement(runs)
    assert text.startswith("Together, a, b are 2 releases for one population: epsilon")
    expected = composed([r for name in "ab" for r in history(headers[name], 3)])
    assert f"{expected.epsilon:.2f}" in text
    assert composed_statement.composed_statement({"a": runs["a"], "c": runs["c"]}) == ""


def test_clients_rehearsed_by_another_run_have_no_joint_guarantee(tmp_path):
    paths = []
    for name, users in (("one", ["ann"]), ("two", ["bob"])):
        header = dataclasses.replace(TREE, key_id=name, population=1, selected_per_round=1)
        paths.append(make_run(tmp_path / name, [*users, "zoe"], header=header))
        (paths[-1] / "config.toml").write_text('[fine_tuning]\ngeneral_store = "general"\n')
        client_digests.write(paths[-1] / "rehearsed_client_digests", client_digests.salted(["zoe"]))

    def statement():
        parts = {path.name: composed_statement.LedgerAndClients.of_run(path) for path in paths}
        return composed_statement.composed_statement(parts)

    assert statement().startswith("Together, one, two are 2 releases")
    client_digests.write(
        paths[0] / "rehearsed_client_digests", client_digests.salted(["zoe", "bob"])
    )
    assert statement().startswith("NO CLAIM for one, two together: one was, or may")


def test_a_run_and_its_continuation_are_not_counted_twice(tmp_path):
    first = make_run(tmp_path / "first", OURS, header=dataclasses.replace(TREE, key_id="first"))
    later = dataclasses.replace(TREE, key_id="later", ancestors=found(first))
    second = make_run(tmp_path / "second", OURS, header=later)
    parts = {
        path.name: composed_statement.LedgerAndClients.of_run(path) for path in (first, second)
    }
    assert "are 2 releases" in composed_statement.composed_statement(parts)


def test_an_ancestor_with_the_same_noise_leaves_no_guarantee(tmp_path):
    """The difference of two models with the same noise has no noise."""
    me = dataclasses.replace(TREE, key_id="me", initial_model="x")
    twin = make_run(tmp_path / "twin", OURS, header=dataclasses.replace(me, clip_norm=9.0))
    header = dataclasses.replace(me, ancestors=found(twin))
    assert len(history(header, 3)) == 2
    assert total_guarantee(header, 3).epsilon == float("inf")
    itself = make_run(tmp_path / "itself", OURS, header=me, rounds=2)
    header = dataclasses.replace(me, ancestors=found(itself))
    assert [release.rounds for release in history(header, 3)] == [3]


def test_one_run_without_a_guarantee_voids_the_joint_guarantee(tmp_path):
    plain = make_run(tmp_path / "plain", OURS)
    later = dataclasses.replace(TREE, key_id="later", ancestors=found(plain))
    paths = [
        make_run(tmp_path / "second", OURS, header=later),
        make_run(tmp_path / "third", OURS, header=dataclasses.replace(TREE, key_id="third")),
    ]
    parts = {path.name: composed_statement.LedgerAndClients.of_run(path) for path in paths}
    assert composed_statement.composed_statement(parts).startswith("NO CLAIM for second, third")


def test_model_is_identified_by_its_run(tmp_path):
    run = make_run(tmp_path / "run", OURS, header=TREE)
    assert ledger_of(run) == ledger_of(run / "model") == run / "privacy_ledger.jsonl"
    assert not ledger_of(tmp_path).exists()


def make_recorded_run(path, client_ids, **changes):
    """Creates a run as `train` begins it: with an id, and the ids of earlier runs."""
    run = make_run(path, client_ids, **changes)
    record_origin(RunDirectory(run))
    return run


def ledger_of_run_from(initial_model, **changes):
    """Returns a header whose ancestors are those of a model."""
    return dataclasses.replace(TREE, ancestors=found(initial_model), **changes)


def test_another_run_at_the_path_of_an_ancestor_is_not_taken_for_it(tmp_path):
    """The name of a run without privacy is used again by a private run."""
    first = make_recorded_run(tmp_path / "a", OURS)
    second = make_recorded_run(
        tmp_path / "b", OURS, header=ledger_of_run_from(first), initial_model=str(first)
    )
    assert [one.people for one in found(second)] == ["same", "same"]
    first.rename(tmp_path / "a_old")
    make_recorded_run(first, OURS, header=TREE, rounds=1)
    before = found(second)
    assert [(one.people, one.header is None) for one in before] == [
        ("same", False),
        ("unknown", True),
    ]
    assert text_of(tmp_path, ancestors=before).startswith("NO CLAIM")


def test_a_private_ancestor_that_is_gone_counts_with_its_recorded_rounds(tmp_path):
    first = make_recorded_run(tmp_path / "a", OURS, header=TREE, rounds=12)
    header = ledger_of_run_from(first, key_id="b")
    second = make_recorded_run(tmp_path / "b", OURS, header=header, initial_model=str(first))
    expected = composed(history(header, 3))
    shutil.rmtree(first)
    assert [(one.people, one.rounds) for one in found(second)] == [("same", 3), ("unknown", 12)]
    make_recorded_run(first, OURS, header=TREE, rounds=1)  # another run with the name
    again = ledger_of_run_from(second, key_id="c")
    assert [(one.people, one.rounds) for one in again.ancestors] == [("same", 3), ("unknown", 12)]
    assert composed(history(again, 3)).epsilon > expected.epsilon


def test_a_relative_path_is_not_looked_up_in_another_folder(tmp_path, monkeypatch):
    for name, rounds in (("here", 12), ("elsewhere", 1)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        make_recorded_run(pathlib.Path("base"), OURS, header=TREE, rounds=rounds)
    monkeypatch.chdir(tmp_path / "here")
    second = make_recorded_run(
        tmp_path / "b", OURS, header=ledger_of_run_from("base"), initial_model="base"
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [one.rounds for one in found(second)] == [3, 12]


def test_a_run_without_a_ledger_keeps_its_history_too(tmp_path):
    first = make_recorded_run(tmp_path / "a", OURS)
    second = make_recorded_run(tmp_path / "b", ["dan"], initial_model=str(first))
    first.rename(tmp_path / "a_old")
    make_recorded_run(first, OURS, header=TREE, rounds=1)
    assert [(one.people, one.header) for one in found(second)] == [
        ("none", None),
        ("unknown", None),
    ]


def test_a_damaged_record_is_an_error(tmp_path):
    run = make_recorded_run(tmp_path / "a", OURS)
    (run / "origin.json").write_text('{"run_id": 3, "earlier_runs": []}')
    with pytest.raises(RunDirectoryError, match=r"origin.json is damaged: `origin.run_id` must be"):
        found(run)


def test_a_restored_ancestor_counts_with_the_larger_record(tmp_path):
    """The backup of an ancestor has fewer rounds than its later ledger, and the same id."""
    first = make_recorded_run(tmp_path / "a", OURS, header=TREE, rounds=1)
    shutil.copytree(first, tmp_path / "backup")
    ledger = PrivacyLedger(first / "privacy_ledger.jsonl", TREE)
    ledger.restart_after(1)
    for number in range(2, 13):
        ledger.record(number)
    header = ledger_of_run_from(first, key_id="b")
    second = make_recorded_run(tmp_path / "b", OURS, header=header, initial_model=str(first))
    shutil.rmtree(first)
    shutil.copytree(tmp_path / "backup", first)
    assert [(one.people, one.rounds) for one in found(second)] == [("same", 3), ("same", 12)]


def test_a_rehearsing_ancestor_that_is_gone_has_no_claim(tmp_path):
    first = make_recorded_run(tmp_path / "a", ["dan", "ann"], header=TREE)
    config = first / "config.toml"
    config.write_text(config.read_text() + '[fine_tuning]\ngeneral_store = "general"\n')
    client_digests.write(first / "rehearsed_client_digests", client_digests.salted(["ann"]))
    recorded = ancestors(str(first), ours=[client_digests.salted(["dan"])])
    assert (recorded[0].header is not None, recorded[0].rehearses) == (True, True)
    header = dataclasses.replace(TREE, ancestors=recorded)
    second = make_recorded_run(tmp_path / "b", ["dan"], header=header, initial_model=str(first))
    assert [one.header is None for one in found(second)] == [False, True]  # ann was rehearsed
    first.rename(tmp_path / "a_old")
    assert [one.header is None for one in found(second)] == [False, True]


def test_a_ledger_knows_that_a_run_without_an_id_was_not_private(tmp_path):
    """As of version 0.2.0, whose directory is replaced by a private run."""
    first = make_run(tmp_path / "a", OURS)
    second = make_run(
        tmp_path / "b", OURS, header=ledger_of_run_from(first), initial_model=str(first)
    )
    first.rename(tmp_path / "a_old")
    make_run(first, ["dan"], header=TREE, rounds=1)
    assert [one.header is None for one in found(second)] == [False, True]


def test_a_directory_that_begins_anew_gets_another_id(tmp_path):
    run = RunDirectory(make_recorded_run(tmp_path / "a", OURS))
    ids = [read_origin(run).run_id]
    record_origin(run)  # no results yet
    ids.append(read_origin(run).run_id)
    PrivacyLedger(run.privacy_ledger, TREE).record(1)
    record_origin(run)
    ids.append(read_origin(run).run_id)
    assert ids[0] != ids[1] == ids[2]


@pytest.mark.parametrize(
    ("other_clients", "beginning"),
    [
        (["ann", "eve"], "Together, c1, c2 are 2 releases"),
        (["ann", "dan"], "NO CLAIM for c1, c2 together"),
        (["dan"], "NO CLAIM for c1, c2 together"),
        (["eve"], None),
    ],
)
def test_an_ancestor_of_one_run_with_clients_of_the_other(tmp_path, other_clients, beginning):
    """The ancestor has no clients of its own descendant, but clients of a run next to it."""
    first = make_recorded_run(tmp_path / "a", ["dan"])
    apart = ancestors(str(first), ours=[client_digests.salted(["ann"])])
    assert [one.people for one in apart] == ["none"]
    header = dataclasses.replace(TREE, ancestors=apart, initial_model=str(first), key_id="c1")
    paths = [
        make_recorded_run(tmp_path / "c1", ["ann"], header=header, initial_model=str(first)),
        make_recorded_run(
            tmp_path / "c2", other_clients, header=dataclasses.replace(TREE, key_id="c2")
        ),
    ]
    parts = {path.name: composed_statement.LedgerAndClients.of_run(path) for path in paths}
    text = composed_statement.composed_statement(parts)
    assert text.startswith(beginning) if beginning else text == ""


def record_more(run, header, rounds, branch=""):
    """Adds rounds to the ledger of a run, with tags of the data if there is a branch."""
    ledger = PrivacyLedger(run / "privacy_ledger.jsonl", header)
    for number in range(ledger.rounds + 1, rounds + 1):
        ledger.restart_after(number - 1)
        ledger.record(number, content=f"{branch}{number}" if branch else "")


def test_a_restored_ancestor_counts_with_the_rounds_that_a_run_without_a_ledger_recorded(tmp_path):
    """The model of the later run, which was not private, comes from 12 rounds, not from 5."""
    first = make_recorded_run(tmp_path / "a", OURS, header=TREE, rounds=5)
    shutil.copytree(first, tmp_path / "backup")
    record_more(first, TREE, 12)
    second = make_recorded_run(tmp_path / "b", ["dan"], initial_model=str(first))
    shutil.rmtree(first)
    shutil.copytree(tmp_path / "backup", first)
    assert [(one.people, one.rounds) for one in found(second)] == [("none", 0), ("same", 12)]
    record_more(first, TREE, 13)
    assert [one.rounds for one in found(second)] == [0, 13]


@pytest.mark.parametrize("header", [TREE, None], ids=["private", "not private"])
def test_the_lost_branch_of_a_restored_fleet_counts(tmp_path, header):
    """The later run started from the branch x, which was lost. The directory has branch y now."""
    fleet = dataclasses.replace(TREE, key_id="a")
    first = make_recorded_run(tmp_path / "a", OURS, header=fleet, rounds=0)
    record_more(first, fleet, 5, "o")
    shutil.copytree(first, tmp_path / "backup")
    record_more(first, fleet, 12, "x")
    if header is not None:
        header = ledger_of_run_from(first, key_id="b")
    second = make_recorded_run(tmp_path / "b", ["dan"], header=header, initial_model=str(first))
    assert found(second)[1].last_content == "x12"
    record_more(first, fleet, 14, "x")
    assert (found(second)[1].rounds, found(second)[1].last_content) == (14, "x14")
    shutil.rmtree(first)
    shutil.copytree(tmp_path / "backup", first)
    record_more(first, fleet, 13, "y")
    lost = found(second)[1]
    assert (lost.people, lost.rounds, lost.last_content) == ("same", 12, "x12")
    third = dataclasses.replace(TREE, key_id="c", ancestors=found(second))
    fourth = dataclasses.replace(TREE, key_id="d", ancestors=found(first))
    releases = distinct([*history(third, 1), *history(fourth, 1)])
    assert sorted(one.last_content for one in releases if one.header.key_id == "a") == [
        "x12",
        "y13",
    ]


def test_a_run_with_an_id_at_the_path_of_a_run_without_one_is_not_taken_for_it(tmp_path):
    """Version 0.2.0 began two runs. The name of the first is used again by this version."""
    first = make_run(tmp_path / "a", OURS, header=dataclasses.replace(TREE, key_id="a"), rounds=12)
    header = ledger_of_run_from(first, key_id="b")
    second = make_run(tmp_path / "b", ["dan"], header=header, initial_model=str(first))
    assert [(one.people, one.rounds) for one in found(second)] == [("none", 3), ("same", 12)]
    first.rename(tmp_path / "a_old")
    other = dataclasses.replace(TREE, key_id="a2")
    make_recorded_run(first, ["zoe"], header=other, rounds=2)
    expected = [("none", 3), ("unknown", 12)]
    assert [(one.people, one.rounds) for one in found(second)] == expected
    record_origin(RunDirectory(second))  # as if it was resumed by this version
    assert [(one.people, one.rounds) for one in found(second)] == expected


def test_a_run_with_an_id_is_not_taken_for_a_run_without_privacy(tmp_path):
    first = make_run(tmp_path / "a", OURS)
    header = ledger_of_run_from(first, key_id="b")
    second = make_run(tmp_path / "b", ["dan"], header=header, initial_model=str(first))
    first.rename(tmp_path / "a_old")
    make_recorded_run(first, ["zoe"], header=dataclasses.replace(TREE, key_id="a2"), rounds=2)
    assert [(one.people, one.header) for one in found(second)][1] == ("unknown", None)


def write_model(directory, **description):
    directory.mkdir(exist_ok=True)
    (directory / "model.json").write_text(json.dumps(description))


@pytest.mark.parametrize("folder", ["model", "model_last"])
def test_a_model_of_another_run_has_an_unknown_origin(tmp_path, folder):
    run = make_recorded_run(tmp_path / "a", ["dan"], header=TREE)
    initial_model = run if folder == "model" else run / folder
    write_model(run / folder, rounds=3, run_id=read_origin(RunDirectory(run)).run_id)
    assert [one.people for one in found(initial_model)] == ["none"]
    write_model(run / folder, rounds=3, run_id="00" * 16)
    assert [(one.people, one.header) for one in found(initial_model)] == [("unknown", None)]
    with pytest.raises(CheckFailed, match="is the model of another run"):
        read_ledger(run / "privacy_ledger.jsonl")


def make_run_with_id(path):
    """Creates a private run whose ledger and model have its id."""
    run = make_recorded_run(path, OURS)
    run_id = read_origin(RunDirectory(run)).run_id
    header = dataclasses.replace(TREE, run_id=run_id, key_id=path.name, store_sha256="s")
    PrivacyLedger(run / "privacy_ledger.jsonl", header).record(1)
    (run / "data_card.json").write_text('{"store_sha256": "s"}')
    write_model(run / "model", rounds=1, run_id=run_id)
    return run


def test_a_ledger_of_another_run_is_refused(tmp_path):
    runs = [make_run_with_id(tmp_path / name) for name in "ab"]
    ledger = runs[0] / "privacy_ledger.jsonl"
    assert len(read_ledger(ledger)[1]) == 1
    shutil.copy(runs[1] / "privacy_ledger.jsonl", ledger)
    with pytest.raises(CheckFailed, match=r"has the id of a run, but .*origin.json has another"):
        read_ledger(ledger)
    alone = tmp_path / "lost" / "privacy_ledger.jsonl"  # kept to count a lost run
    alone.parent.mkdir()
    shutil.copy(ledger, alone)
    assert len(read_ledger(alone)[1]) == 1


def test_a_private_run_that_lost_its_record_of_origin_is_refused(tmp_path):
    run = make_run_with_id(tmp_path / "a")
    (run / "origin.json").unlink()
    with pytest.raises(CheckFailed, match=r"origin.json is missing. Restore"):
        record_origin(RunDirectory(run))
    assert not (run / "origin.json").exists()


def test_a_ledger_for_another_store_is_refused(tmp_path):
    run = make_run(tmp_path / "a", OURS, header=dataclasses.replace(TREE, store_sha256="s"))
    (run / "data_card.json").write_text('{"store_sha256": "t"}')
    with pytest.raises(CheckFailed, match="with another client store than"):
        read_ledger(run / "privacy_ledger.jsonl")


def test_a_model_without_an_id_in_a_run_with_one_is_refused(tmp_path):
    run = make_run_with_id(tmp_path / "a")
    write_model(run / "model", rounds=1)
    with pytest.raises(CheckFailed, match="is the model of another run"):
        read_ledger(run / "privacy_ledger.jsonl")


def make_validated_run(path, client_ids, validation_ids, *, train="", store="s", **changes):
    """Creates a run whose model was chosen on validation clients."""
    run = make_run(path, client_ids, **changes)
    config = run / "config.toml"
    config.write_text(f"{config.read_text()}[train]\n{train}\n")
    record_origin(RunDirectory(run))
    digests = client_digests.salted(validation_ids)
    client_digests.write(run / "validation_client_digests", digests)
    (run / "data_card.json").write_text(json.dumps({"store_sha256": store}))
    return run


PRIVATE_OF_STORE = dataclasses.replace(TREE, key_id="a", store_sha256="s")


@pytest.mark.parametrize("header", [PRIVATE_OF_STORE, None], ids=["private", "not private"])
def test_a_model_chosen_by_validation_on_our_clients_has_no_claim(tmp_path, header):
    run = make_validated_run(tmp_path / "a", ["dan"], ["ann"], header=header)
    (one,) = found(run)
    assert (one.people, one.header, one.shares_clients) == ("none", None, True)
    text = text_of(tmp_path, ancestors=(one,))
    assert text.startswith("NO CLAIM: the initial model")
    assert "was chosen by validation on clients" in text
    same_store = ancestors(str(run), ours=[client_digests.salted(OURS)], store_sha256="s")
    assert not same_store[0].validates_ours


@pytest.mark.parametrize(
    ("validation_ids", "train"),
    [(["zoe"], ""), (["ann"], 'final_model = "last"\nearly_stop_patience = 0')],
    ids=["other clients", "last model"],
)
def test_validation_that_does_not_concern_us_costs_nothing(tmp_path, validation_ids, train):
    run = make_validated_run(
        tmp_path / "a", ["dan"], validation_ids, train=train, header=PRIVATE_OF_STORE
    )
    (one,) = found(run)
    assert (one.people, one.header is None, one.shares_clients) == ("none", False, False)
    devices = ancestors(str(run), ours=())  # their unit is the text under a device key
    assert [(each.people, each.header is None) for each in devices] == [("unknown", False)]


@pytest.mark.parametrize(
    ("store", "second_store", "has_claim"),
    [("s", "s", True), ("t", "s", False), ("s", "t", False), ("t", "t", False)],
)
def test_a_validated_ancestor_that_is_gone(tmp_path, store, second_store, has_claim):
    first = make_validated_run(tmp_path / "a", OURS, ["zoe"], header=PRIVATE_OF_STORE)
    ours = [client_digests.salted(OURS)]
    before = ancestors(str(first), ours=ours, store_sha256=second_store)
    header = dataclasses.replace(TREE, ancestors=before, key_id="b")
    second = make_recorded_run(tmp_path / "b", OURS, header=header, initial_model=str(first))
    (second / "data_card.json").write_text(json.dumps({"store_sha256": second_store}))
    first.rename(tmp_path / "a_old")
    seen = ancestors(str(second), ours=ours, store_sha256=store)
    assert (seen[1].header is not None) == has_claim
    assert seen[1].shares_clients


SIMULATION = dataclasses.replace(TREE, key_id="a", noise_source=noise_key.FIXED_NONCE)
PROJECTION = dataclasses.replace(TREE, key_id="a", noise_cohort_size=1000)


@pytest.mark.parametrize(
    ("before", "words"), [(SIMULATION, "is of a simulation"), (PROJECTION, "is of a projection")]
)
def test_a_real_run_cannot_continue_a_simulation(tmp_path, before, words):
    first = make_recorded_run(tmp_path / "a", OURS, header=before)
    text = text_of(tmp_path, ancestors=found(first), noise_source=noise_key.NONCE)
    assert text.startswith("NO CLAIM: the initial model")
    assert words in text
    assert re.search(r"^epsilon +NO CLAIM", text, re.MULTILINE)
    header = dataclasses.replace(TREE, key_id="me", ancestors=found(first))
    assert total_guarantee(header, 3) is None
    line = resumed_line(tmp_path / "text" / "privacy_ledger.jsonl", 5)
    assert line.endswith("NO CLAIM.")
    assert "NO CLAIM" in "\n".join(plan_remarks(header))
    same_kind = dataclasses.replace(before, key_id="me", ancestors=found(first))
    assert total_guarantee(same_kind, 3) is not None  # its own label says what it is


@pytest.mark.parametrize("header", [SIMULATION, PROJECTION])
def test_a_sum_of_a_real_run_and_a_simulation_has_no_claim(tmp_path, header):
    make_recorded_run(tmp_path / "a", OURS, header=header)
    real = dataclasses.replace(TREE, key_id="b", noise_source=noise_key.NONCE)
    make_recorded_run(tmp_path / "b", OURS, header=real)
    parts = {
        name: composed_statement.LedgerAndClients.of_run(tmp_path / name) for name in ("a", "b")
    }
    assert composed_statement.composed_statement(parts).startswith("NO CLAIM for a, b together: a ")


def with_run_id(run, header):
    """Writes a ledger of this version, which has the id of its run."""
    (run / "privacy_ledger.jsonl").unlink(missing_ok=True)
    header = dataclasses.replace(header, run_id=read_origin(RunDirectory(run)).run_id)
    PrivacyLedger(run / "privacy_ledger.jsonl", header).record(1)
    return run


def test_a_copy_without_the_clients_of_validation_has_no_claim(tmp_path):
    """Secret files are left out of a copy that is published."""
    run = with_run_id(make_validated_run(tmp_path / "a", OURS, ["zoe"]), PRIVATE_OF_STORE)
    assert found(run)[0].header is not None
    (run / "validation_client_digests").unlink()
    assert found(run)[0].header is None
    assert ancestors(str(run), ours=[client_digests.salted(OURS)], store_sha256="s")[0].header


def test_a_statement_about_devices_excludes_the_clients_whose_text_chose_the_model(tmp_path):
    run = with_run_id(make_validated_run(tmp_path / "a", ["dan"], ["zoe"]), TREE)
    changes = {"ancestors": ancestors(str(run), ours=[]), "population": 0, "sampling": CHECK_IN}
    text = text_of(tmp_path, **changes)
    excluded = f"Not covered: the text of validation clients of the earlier run {run}"
    assert excluded in text
    assert "NO CLAIM" not in text
    header = dataclasses.replace(TREE, key_id="me", **changes)
    assert excluded in "\n".join(plan_remarks(header))
    not_chosen = dataclasses.replace(header.ancestors[0], validates=False)
    header = dataclasses.replace(header, ancestors=(not_chosen,))
    assert excluded not in "\n".join(plan_remarks(header))


def test_a_sum_of_runs_counts_validation_on_the_clients_of_the_other_run(tmp_path):
    with_run_id(make_validated_run(tmp_path / "a", ["dan", "ann"], ["bob"]), TREE)
    for name, store in (("b", "t"), ("c", "s")):
        header = dataclasses.replace(TREE, key_id=name)
        with_run_id(make_validated_run(tmp_path / name, OURS, ["zoe"], store=store), header)
    parts = {
        name: composed_statement.LedgerAndClients.of_run(tmp_path / name)
        for name in ("a", "b", "c")
    }
    other_store = composed_statement.composed_statement({n: parts[n] for n in ("a", "b")})
    assert other_store.startswith("NO CLAIM for a, b together: a was, or may have been, trained or")
    same_store = composed_statement.composed_statement({n: parts[n] for n in ("a", "c")})
    assert same_store.startswith("Together, a, c are 2 releases")
    assert "Not covered: the clients of validation" in same_store


@pytest.mark.parametrize("validation_ids", [["bob"], ["zoe"]])
def test_a_sum_of_runs_on_apart_clients_counts_validation_on_them(tmp_path, validation_ids):
    runs = {
        "a": make_validated_run(tmp_path / "a", ["dan"], validation_ids),
        "b": make_validated_run(tmp_path / "b", ["bob"], ["eve"], store="t"),
    }
    for name, run in runs.items():
        with_run_id(run, dataclasses.replace(TREE, key_id=name))
    parts = {name: composed_statement.LedgerAndClients.of_run(path) for name, path in runs.items()}
    expected = "NO CLAIM for a, b together: a was, or may have been, trained or"
    text = composed_statement.composed_statement(parts)
    assert text.startswith(expected) if validation_ids == ["bob"] else text == ""


def test_training_and_evaluation_on_devices_have_a_joint_epsilon():
    """The server's own store chose the model; nobody knows the clients of a fleet."""
    on_devices = ledger_header(
        key_id="a", sampling=CHECK_IN, population=0, uniform_sampling=False, min_separation_rounds=4
    )
    sums = dataclasses.replace(on_devices, key_id="b", aggregator=EVALUATION)
    training = composed_statement.LedgerAndClients(on_devices, 10, None, validates=True)
    evaluation = composed_statement.LedgerAndClients(sums, 2, None)
    text = composed_statement.composed_statement({"a": training, "b": evaluation})
    rho = guarantee_of(on_devices, 10).rho + guarantee_of(sums, 2).rho
    epsilon = accounting.epsilon_of_zcdp(rho, on_devices.delta, method=accounting.EXACT_GAUSSIAN)
    assert text.startswith("Together, a, b are 2 releases")
    assert f"epsilon {epsilon_in_words(epsilon)}" in text
    assert "Not covered: the clients of validation" in text
    simulated = dataclasses.replace(on_devices, key_id="c", sampling="fixed_size", population=50)
    other = composed_statement.LedgerAndClients(simulated, 1, None)
    text = composed_statement.composed_statement({"a": training, "c": other})
    assert text.startswith("NO CLAIM for a, c together: a was, or may have been, trained or chosen")


@pytest.mark.parametrize("rounds", [1, 20])
def test_a_total_is_never_below_one_of_its_parts(rounds):
    other = dataclasses.replace(TREE, key_id="b", noise_multiplier=1e6)
    both = [Release(TREE, rounds), Release(other, 1)]
    assert composed(both).epsilon >= guarantee_of(TREE, rounds).epsilon
    assert composed(both).epsilon == pytest.approx(guarantee_of(TREE, rounds).epsilon, rel=1e-3)


@pytest.mark.parametrize("source", ["text", "tsv"])
def test_clients_that_are_parts_of_a_text_are_named(tmp_path, source):
    text_of(tmp_path)
    run = RunDirectory(tmp_path / "text")
    run.data_card_path.write_text(json.dumps({"options": {"source": source}}))
    text = privacy_statement(run.privacy_ledger)
    assert ("equal parts of one text" in text) is (source == "text")


def test_caveats_of_earlier_runs(tmp_path):
    sampled = ledger_header(key_id="a", uniform_sampling=True, secret_cohorts=True)
    first = make_recorded_run(tmp_path / "a", OURS, header=sampled)
    text = text_of(tmp_path, ancestors=found(first), vocabulary_rho=0.1)
    assert "sampled clients of each round stay secret" in text
    assert f"vocabulary of the earlier run {first} was not chosen privately" in text


@pytest.mark.parametrize("name", ["metrics.csv", "timings.csv", "withheld_metrics.jsonl"])
def test_a_cut_ledger_is_seen_by_any_file_of_rounds(tmp_path, name):
    run = make_run(tmp_path / "a", OURS, header=TREE, rounds=3)
    if name.endswith("csv"):
        (run / name).write_text("round,seconds\n1,2.0\n2,2.0\n3,2.0\n4,2.0\n5,")
    else:
        (run / name).write_text("".join(f'{{"round": {n}}}\n' for n in range(1, 5)))
    with pytest.raises(CheckFailed, match="4"):
        read_ledger(run / "privacy_ledger.jsonl")


def test_a_model_without_an_id_in_a_run_with_one_has_an_unknown_origin(tmp_path):
    """A run writes its id into its models, so this model is not from the run."""
    run = make_recorded_run(tmp_path / "run", ["dan"])
    write_model(run / "model", run_id=read_origin(RunDirectory(run)).run_id)
    assert [one.people for one in found(run)] == ["none"]
    write_model(run / "model")
    assert [one.people for one in found(run)] == ["unknown"]


@pytest.mark.parametrize("is_private", [True, False])
def test_a_model_in_the_root_of_a_run_directory_is_refused(tmp_path, is_private):
    """It would be loaded instead of the run's own model, which the ledger covers."""
    run = make_run(tmp_path / "run", OURS, header=TREE if is_private else None)
    write_model(run / "model")
    check_root_of_run(run)
    shutil.copy(run / "model" / "model.json", run)
    with pytest.raises(CheckFailed, match=r"run/model.json is not the model of the run") as error:
        read_description(run)
    assert error.value.exit_code == 5
    if is_private:
        with pytest.raises(CheckFailed, match="is not the model of the run"):
            privacy_statement(run / "privacy_ledger.jsonl")
        (run / "config.toml").unlink()  # such as a ledger that was copied next to a model
        with pytest.raises(CheckFailed, match="is not the model of the run"):
            read_description(run)


def test_a_ledger_without_a_run_covers_only_models_with_its_id(tmp_path):
    ledger = PrivacyLedger(
        tmp_path / "privacy_ledger.jsonl", dataclasses.replace(TREE, run_id="a" * 32)
    )
    ledger.record(1)
    write_model(tmp_path / "model", run_id="a" * 32)
    assert len(read_ledger(tmp_path / "privacy_ledger.jsonl")[1]) == 1
    write_model(tmp_path / "model", run_id="b" * 32)
    with pytest.raises(CheckFailed, match="is the model of another run"):
        read_ledger(tmp_path / "privacy_ledger.jsonl")


def test_weights_of_a_users_model_have_an_unknown_origin(tmp_path):
    before = ancestors("", ours=[client_digests.salted(OURS)], unknown_weights="my_models.py:Gru")
    assert [(one.model, one.people) for one in before] == [("my_models.py:Gru", "unknown")]
    text = text_of(tmp_path, ancestors=before)
    assert "NO CLAIM" in text
    assert "`draws_initial_weights` = True" in text
    assert "random weights" not in text
    run = make_run(tmp_path / "first", OURS)
    record_origin(RunDirectory(run), "my_models.py:Gru")
    assert [one.people for one in found(run)] == ["same", "unknown"]


def test_a_declared_model_is_named_as_unchecked(tmp_path):
    parts = ("model.type = /home/ann/my_models.py:Gru",)
    header = dataclasses.replace(TREE, initial_model="", unchecked_parts=parts)
    path = make_run(tmp_path / "run", OURS, header=header) / "privacy_ledger.jsonl"
    text = privacy_statement(path)
    assert "NO CLAIM" not in text
    assert "weights drawn by /home/ann/my_models.py:Gru" in text
    assert "draws its initial weights, and has no constants" in text
    assert labels_of(header) == ("own part, not checked",)
    assert labels_of(SIMULATION) == ("simulation: no guarantee",)
    assert labels_of(PROJECTION) == ("projection",)
    assert labels_of(TREE) == ()


def begun(path):
    """A run that has released a round without a ledger."""
    (path / "metrics.jsonl").write_text('{"round": 1}\n')
    return RunDirectory(path)


def test_a_record_of_origin_only_gets_worse(tmp_path):
    path = make_run(tmp_path / "run", ["dan"])
    config = path / "config.toml"
    config.write_text('[train]\nfinal_model = "last"\nearly_stop_patience = 1\n')
    run = begun(path)
    record_origin(run)
    first = read_origin(run)
    assert (first.earlier_runs, first.chosen_by_validation) == ([], True)
    config.write_text('[train]\nfinal_model = "last"\n')  # a resume may change the patience
    record_origin(run, "a process of a Python program")
    record_origin(run)
    last = read_origin(run)
    assert last.run_id == first.run_id
    assert [one.model for one in last.earlier_runs] == ["a process of a Python program"]
    assert last.chosen_by_validation


@pytest.mark.parametrize("changes", [True, False])
def test_a_simulated_attack_and_a_training_do_not_continue_each_other(tmp_path, changes):
    """Their sums differ, and the noise would be the same."""
    run = begun(make_run(tmp_path / "run", ["dan"]))
    record_origin(run, changes_client_work=changes)
    record_origin(run, changes_client_work=changes)
    with pytest.raises(RunDirectoryError, match="work of clients"):
        record_origin(run, changes_client_work=not changes)


def test_a_simulated_attack_has_no_claim(tmp_path):
    """Colluders send updates that depend on the updates of other clients."""
    attacked = dataclasses.replace(TREE, key_id="a", changes_client_work=True)
    first = make_recorded_run(tmp_path / "a", OURS, header=attacked)
    assert total_guarantee(attacked, 3) is None
    text = privacy_statement(first / "privacy_ledger.jsonl")
    assert text.startswith("NO CLAIM: a program changes the work of the clients")
    assert re.search(r"^epsilon +NO CLAIM", text, re.MULTILINE)
    assert resumed_line(first / "privacy_ledger.jsonl", 5).endswith("NO CLAIM.")
    later = text_of(tmp_path, ancestors=found(first))
    assert later.startswith("NO CLAIM: the initial model")
    assert "whose client work a program changed" in later
    make_recorded_run(tmp_path / "b", OURS, header=dataclasses.replace(TREE, key_id="b"))
    parts = {
        name: composed_statement.LedgerAndClients.of_run(tmp_path / name) for name in ("a", "b")
    }
    assert composed_statement.composed_statement(parts).startswith("NO CLAIM for a, b together: a ")


def test_the_ledger_of_a_lost_directory_is_added_to_its_restored_backup(tmp_path):
    """With validation of the run itself: both have one store."""
    run = with_run_id(make_validated_run(tmp_path / "fleet", OURS, ["zoe"]), TREE)
    lost = tmp_path / "lost"
    lost.mkdir()
    shutil.copy(run / "privacy_ledger.jsonl", lost)
    other = dataclasses.replace(TREE, run_id="f" * 32)
    (tmp_path / "other").mkdir()
    PrivacyLedger(tmp_path / "other" / "privacy_ledger.jsonl", other).record(1)
    of_run = composed_statement.LedgerAndClients.of_run
    parts = {name: of_run(tmp_path / name) for name in ("fleet", "lost", "other")}
    both = composed_statement.composed_statement({n: parts[n] for n in ("fleet", "lost")})
    assert both.startswith("Together, fleet, lost are 2 releases")
    unknown = composed_statement.composed_statement({n: parts[n] for n in ("fleet", "other")})
    assert unknown.startswith("NO CLAIM for fleet, other together: fleet ")


@pytest.mark.parametrize(
    ("part", "promise"),
    [
        ("server.type = a.py:Anchor", "has no constants made from text"),
        ("data.source = a.py:rows", "gives each message to the client"),
    ],
)
def test_own_optimizers_and_sources_are_named(tmp_path, part, promise):
    text = text_of(tmp_path, unchecked_parts=(part,))
    assert f"own part, {part}, {promise}" in text
