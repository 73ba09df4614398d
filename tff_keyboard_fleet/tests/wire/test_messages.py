"""The messages of the wire: encoding, decoding, and one code for each error."""

import contextlib
import dataclasses
import json

import hypothesis
import pytest
from hypothesis import strategies

from tff_keyboard_fleet.tests.support import devices
from tff_keyboard_fleet.wire import messages
from tff_keyboard_fleet.wire.plan import Conditions, Plan

HASH = "0" * 64
HEADER = messages.UploadHeader(assignment="a", weight=12.0, loss=5.5, codec=messages.RAW, shape=[3])
PLAN = dataclasses.replace(
    devices.PLAN,
    vocabulary="f" * 64,
    learning_rate=0.5,
    max_messages=256,
    conditions=Conditions(app_versions=["1.0"]),
)


@pytest.mark.parametrize(
    "message",
    [
        messages.CheckIn(protocol=1, population="p", plan=HASH, token=None),
        messages.CheckinResponse(rejection=messages.Rejection(retry_after_s=5, reason="running")),
        messages.CheckinResponse(
            task=messages.TaskAssignment(
                round=1, plan=HASH, model=HASH, assignment="a", upload_before_s=60
            )
        ),
        HEADER,
        messages.Accepted(token="r.1.1.00", accepted=1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_is_read_as_it_was_written(message):
    assert messages.decode(type(message), messages.encode(message)) == message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "bad_json"),
        (b"[]", "bad_json"),
        (b"{}", "bad_json"),
        (b"\xff", "bad_json"),
        (b"[" * 100_000, "too_large"),
        (b"[" * 50_000, "bad_json"),
        (b'{"assignment":"a","weight":NaN,"loss":1}', "bad_json"),
        (b'{"assignment":"a","weight":1e999,"loss":1}', "bad_json"),
        (b'{"assignment":"a","weight":1,"loss":1,"more":1}', "bad_json"),
        (b'{"assignment":"a","weight":"1","loss":1}', "bad_json"),
        (b'{"assignment":"a","weight":1' + b"0" * 20 + b',"loss":1}', "bad_json"),
        (b'{"assignment":"a","weight":-1' + b"0" * 400 + b',"loss":1}', "bad_json"),
        (b'{"assignment":"\\ud800","weight":1,"loss":1}', "bad_json"),
    ],
)
def test_invalid_messages_are_rejected(data, code):
    with pytest.raises(messages.Refused) as refused:
        messages.decode(messages.Loss, data)
    assert refused.value.code == code


NO_HASHES = ["../key.pem", "/tmp/file", "", "0" * 63, "0" * 65, HASH + "\n", "A" * 64, "٠" * 64]


@pytest.mark.parametrize("field", ["plan", "model"])
def test_task_names_must_be_hashes(field):
    task = {"round": 1, "plan": HASH, "model": HASH, "assignment": "a", "upload_before_s": 60}
    for name in NO_HASHES:
        answer = json.dumps({"task": task | {field: name}}).encode()
        with pytest.raises(messages.Refused, match=f"`{field}` must be a SHA-256"):
            messages.decode(messages.CheckinResponse, answer)


@hypothesis.given(strategies.binary(max_size=200))
def test_any_bytes_are_an_upload_or_refused(data):
    with contextlib.suppress(messages.Refused):  # any other error is a bug
        _, payload = messages.unpack_upload(data)
        assert data.endswith(payload)


def test_an_upload_is_its_header_and_its_bytes():
    body = messages.pack_upload(HEADER, b"payload")
    assert messages.unpack_upload(body) == (HEADER, b"payload")
    assert int.from_bytes(body[:4], "big") == len(body) - 4 - len(b"payload")
    with pytest.raises(messages.Refused, match="bad_json"):
        messages.unpack_upload(body[:20])
    with pytest.raises(messages.Refused, match="too_large"):
        messages.unpack_upload(b"\xff" * 8)


def test_plan_hash_depends_on_its_content():
    assert Plan.from_bytes(PLAN.to_bytes()) == PLAN
    spaced = json.dumps(json.loads(PLAN.to_bytes())).encode()
    assert Plan.from_bytes(spaced).sha256 == PLAN.sha256


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("protocol", 2),
        ("weighting", "words"),
        ("phases", ["loss"]),
        ("codec", {"name": "zip", "bits": 1}),
        *(("graph", name) for name in NO_HASHES),
    ],
)
def test_plan_with_unknown_features_is_rejected(key, value):
    changed = json.dumps(json.loads(PLAN.to_bytes()) | {key: value}).encode()
    with pytest.raises(ValueError, match=r"protocol|kind|codec|known|SHA-256"):
        Plan.from_bytes(changed)


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        ({"ttl_days": 1e300}, "ttl_days"),
        ({"ttl_days": 366.0}, "ttl_days"),
        ({"ttl_days": 0.0}, "ttl_days"),
        ({"max_per_category": 0}, "max_per_category"),
    ],
)
def test_a_server_cannot_keep_text_for_ever_or_delete_all_of_it(limits, name):
    values = json.loads(PLAN.to_bytes())
    values["cache"] |= limits
    with pytest.raises(ValueError, match=rf"`plan\.cache\.{name}`"):
        Plan.from_bytes(json.dumps(values).encode())
