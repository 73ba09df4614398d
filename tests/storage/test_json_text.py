"""JSON from outside: a value, or one kind of error that quotes nothing."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import DEEP_JSON, damaged
from tests.support.examples import examples
from tff_keyboard.storage import json_text, toml
from tff_keyboard.storage.json_text import MAX_DEPTH, MAX_DIGITS, InvalidJsonError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
@examples(200)
def test_reads_what_json_writes(value):
    text = json.dumps(value)
    assert json_text.parse(text) == value
    assert json_text.parse(b"\xef\xbb\xbf" + text.encode()) == value


@pytest.mark.parametrize("name", DEEP_JSON)
@pytest.mark.parametrize("as_text", [bytes, lambda data: data.decode()], ids=["bytes", "str"])
def test_rejects_deep_and_long(name, as_text):
    with pytest.raises(
        InvalidJsonError, match=r"nested deeper than 100 levels|whole number that is too long"
    ):
        json_text.parse(as_text(DEEP_JSON[name]))


def test_limits_are_exact():
    assert json_text.parse("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(InvalidJsonError, match=f"deeper than {MAX_DEPTH} levels"):
        json_text.parse("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert json_text.parse("-" + "9" * MAX_DIGITS) == -int("9" * MAX_DIGITS)
    with pytest.raises(InvalidJsonError, match="whole number that is too long"):
        json_text.parse("9" * (MAX_DIGITS + 1))
    assert json_text.parse('"' + "9" * 5000 + '"')  # in a string, digits are text
    assert json_text.parse('"' + "[" * 5000 + '"')


@pytest.mark.parametrize(
    ("data", "line"), [(b"[1,\n2,\nx]", 3), (b'["a",\n"\xff"]', 2), (b"", 1), (b"\xff\xfe[\0", 1)]
)
def test_error_names_the_line_and_quotes_nothing(data, line):
    with pytest.raises(InvalidJsonError, match=r"^it is not (valid JSON|UTF-8)$") as caught:
        json_text.parse(data)
    assert caught.value.line == line
    assert caught.value.__cause__ is None  # the cause would have the whole text


@given(st.binary(max_size=200) | damaged(b'{"a": [1, {"b": null}], "c": -1.5e3}'))
@examples(300)
def test_any_bytes(data):
    with contextlib.suppress(InvalidJsonError):
        json_text.parse(data)


def test_toml_reads_numbers_of_64_bits_and_lists_of_100_levels():
    assert toml.parse(f"a = {2**64 - 1}\nb = -{2**63}") == {"a": 2**64 - 1, "b": -(2**63)}
    assert toml.parse("a = " + "[" * 99 + "1" + "]" * 99)
    with pytest.raises(toml.InvalidTomlError, match="deeper than 100 levels"):
        toml.parse("a = " + "[" * 100 + "]" * 100)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "[" * 200 + "]" * 200,
        "a = " + "{b = " * 5000,
        ".".join(["a"] * 5000) + " = 1",
        "[" + ".".join(["a"] * 5000) + "]",
        "a = " + "9" * 5000,
        "[a]\nb = [[" + "9" * 400 + "]]",
        f"a = {2**64}",
        "a = [",
    ],
    ids=["list", "closed", "tables", "keys", "header", "number", "float", "bits", "syntax"],
)
def test_toml_has_one_kind_of_error(text):
    with pytest.raises(toml.InvalidTomlError) as caught:
        toml.parse(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def repaired(text):
    repairs = []
    return json_text.parse(text, repairs=repairs), [tuple(repair) for repair in repairs]


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a":\n "hi \\x0C there"}', {"a": "hi \x0c there"}, [("control_character", 2)]),
        ('{"a":\n "\x01\x02"}', {"a": "\x01\x02"}, [("control_character", 2)] * 2),
        (
            '["two\nlines",\n"\x00"]',
            ["two\nlines", "\0"],
            [("control_character", n) for n in (1, 3)],
        ),
        (
            '{"document_id": stickers/a b (2).webp\n, "id": 7,\n"from_id": user7, "b": 1.5}',
            {"document_id": "stickers/a b (2).webp", "id": 7, "from_id": "user7", "b": 1.5},
            [("unquoted_id", 1), ("unquoted_id", 3)],
        ),
        (
            '{"a_id": null, "b_id": -1.5, "id": true, "c": "\t", "d": "\\\\x01 \\"id\\": x"}',
            {"a_id": None, "b_id": -1.5, "id": True, "c": "\t", "d": '\\x01 "id": x'},
            [("control_character", 1)],
        ),
    ],
)
def test_repairs_what_chat_programs_write(text, value, repairs):
    assert repaired(text) == (value, repairs)
    assert repaired(b"\xef\xbb\xbf" + text.encode()) == (value, repairs)
    with pytest.raises(InvalidJsonError, match=r"^it is not valid JSON$"):
        json_text.parse(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('["\x01",\n"a\nb",\nx]', 4),  # a line feed in a string is a line of the file
        ('{"id": a b: c}', 1),
        ('{"id": "a" b}', 1),
        ('{"name":\n anna}', 2),
        ('{"a": "\\x41"}', 1),
        ('{"a": "\x01}', 1),
        ('{"a":\n\x01}', 2),
        ('{id: 7, "a": "\x01"}', 1),
    ],
)
def test_other_defects_are_errors(text, line):
    with pytest.raises(InvalidJsonError, match=r"^it is not valid JSON$") as caught:
        repaired(text)
    assert caught.value.line == line


@given(JSON)
@examples(200)
def test_valid_text_needs_no_repair(value):
    assert repaired(json.dumps(value)) == (value, [])
    raw = json.dumps([value, "\x01"], ensure_ascii=False).replace("\\u0001", "\x01")
    expected = json.loads(raw, strict=False)
    assert repaired(raw)[0] == expected


@pytest.mark.parametrize("name", DEEP_JSON)
def test_limits_hold_for_repaired_text(name):
    with pytest.raises(InvalidJsonError, match=r"nested deeper|number that is too long"):
        repaired(b'["\x01", ' + DEEP_JSON[name] + b"]")


@pytest.mark.parametrize(
    "text",
    [
        '["\x01", ' + '"' * 1_000_000,
        '["\x01", "' + "\\" * 1_000_001,
        '["\x01", "' + "id" * 500_000,
        '"id": ' * 200_000,
        '"id": x' * 200_000,
        '["' + "\\x01" * 300_000 + '", x',
        "\x01" * 1_000_000,
    ],
    ids=["quotes", "escapes", "words", "keys", "ids", "controls", "outside"],
)
def test_repairs_take_linear_time(text):
    begun = time.process_time()
    with contextlib.suppress(InvalidJsonError):
        repaired(text)
    assert time.process_time() - begun < 5
