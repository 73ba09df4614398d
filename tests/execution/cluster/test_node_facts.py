"""The facts by which nodes are compared."""

import pytest

from tff_keyboard.execution.cluster import node_facts


def test_machine_does_not_differ_from_itself(tmp_path):
    (tmp_path / "card.json").write_text("{}")
    files = {"store": str(tmp_path / "card.json")}
    own = node_facts.facts(files)
    assert node_facts.differences(own, node_facts.facts(files), lenient=False) == []
    assert {"python", "ray", "tensorflow", "code", "processor", "store"} <= own.keys()


@pytest.mark.parametrize("name", ["tensorflow", "code", "processor"])
def test_nondeterminism_is_only_allowed_on_request(name):
    own = node_facts.facts({})
    other = own | {name: "another one"}
    (found,) = node_facts.differences(own, other, lenient=False)
    assert found.startswith(f"{name}: another one instead of ")
    assert node_facts.differences(own, other, lenient=True) == []


@pytest.mark.parametrize("name", ["python", "ray", "store"])
def test_facts_that_must_be_equal(name, tmp_path):
    own = node_facts.facts({"store": str(tmp_path / "card.json")})
    for other in (own | {name: "another"}, {k: v for k, v in own.items() if k != name}):
        assert len(node_facts.differences(own, other, lenient=True)) == 1


def test_settings_of_onednn_are_compared(monkeypatch):
    own = node_facts.facts({})
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    (found,) = node_facts.differences(own, node_facts.facts({}), lenient=False)
    assert found.startswith("processor: ")


def test_missing_file(tmp_path):
    card = tmp_path / "card.json"
    missing = node_facts.facts({"store": str(card)})
    assert missing["store"] == "missing"
    card.write_text("{}")
    here = node_facts.facts({"store": str(card)})
    (found,) = node_facts.differences(here, missing, lenient=False)
    assert found.startswith("store: missing instead of ")


def test_stores_may_be_in_another_folder(tmp_path, monkeypatch):
    here = tmp_path / "here" / "sms"
    assert node_facts.place_of(here) == here
    monkeypatch.setenv("TFF_KEYBOARD_STORES", str(tmp_path / "there"))
    assert node_facts.place_of(here) == tmp_path / "there" / "sms"
    card = here / "data_card.json"
    assert node_facts.place_of(card) == tmp_path / "there" / "sms" / "data_card.json"
    here.mkdir(parents=True)
    assert node_facts.place_of(here) == here
