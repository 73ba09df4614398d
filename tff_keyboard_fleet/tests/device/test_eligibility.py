import dataclasses
import json

import pytest

from tff_keyboard.storage.errors import UsageError
from tff_keyboard_fleet.device import eligibility
from tff_keyboard_fleet.device.eligibility import DeviceFacts
from tff_keyboard_fleet.wire.plan import Conditions

FACTS = DeviceFacts(
    ram_gib=2.0, charging=True, unmetered=True, idle=True, locale="en_US", app_version="7.3"
)
CONDITIONS = Conditions(
    ram_gib=2.0, locale="en_US", app_versions=["7.3"], min_examples=5, min_days_between=1.0
)


def unmet(examples=5, days_since=1.0, conditions=CONDITIONS, **changes):
    facts = dataclasses.replace(FACTS, **changes)
    return eligibility.unmet(conditions, facts, examples=examples, days_since=days_since)


def test_all_are_met_on_their_edge():
    assert unmet() == []
    assert unmet(days_since=None) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ram_gib", {"ram_gib": 1.9}),
        ("charging", {"charging": False}),
        ("unmetered", {"unmetered": False}),
        ("idle", {"idle": False}),
        ("locale", {"locale": "en_GB"}),
        ("app_versions", {"app_version": "7.2"}),
        ("min_examples", {"examples": 4}),
        ("min_days_between", {"days_since": 0.9}),
    ],
)
def test_each_alone_keeps_a_device_out(name, change):
    assert unmet(**change) == [name]


def test_conditions_that_a_plan_does_not_have():
    free = Conditions(ram_gib=0, charging=False, unmetered=False, idle=False, min_examples=0)
    facts = {"ram_gib": 0.5, "charging": False, "unmetered": False, "idle": False, "locale": "xx"}
    assert unmet(0, 0.0, free, **facts) == []


def test_a_language_stands_for_its_regions():
    wanted = dataclasses.replace(CONDITIONS, locale="en")
    assert unmet(conditions=wanted, locale="en_GB") == []
    assert unmet(conditions=wanted, locale="eng") == ["locale"]


def test_facts_of_a_file(tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(dataclasses.asdict(FACTS)))
    assert eligibility.read_facts(path) == FACTS


@pytest.mark.parametrize("content", ["", "[]", '{"ram_gib": 2}', '{"ram_gib": "2"}'])
def test_a_file_without_facts(content, tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(content)
    with pytest.raises(UsageError, match="does not have the state of a device"):
        eligibility.read_facts(path)
