"""Personal dictionaries of other keyboards, and the file that people edit."""

import io
import json
import stat
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.storage.errors import DataError
from tff_keyboard_app.keyboard import dictionary_files
from tff_keyboard_app.keyboard.dictionary_files import Entry

GBOARD = (
    "# Gboard Dictionary version:1\n# Gboard Dictionary format:shortcut\tword\tlanguage_tag\n"
    "omw\ton my way\ten-US\n\tZbigniew\t\n\t\ten\n"
)


def archive(name, text):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        # Without the date, which names of test cases would have.
        file.writestr(zipfile.ZipInfo(name), text, compress_type=zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def read(tmp_path, content):
    path = tmp_path / "dictionary"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return dictionary_files.read(path)


def test_gboard(tmp_path):
    for content in (archive("dictionary.txt", GBOARD), GBOARD):
        dictionary = read(tmp_path, content)
        assert dictionary.entries == (Entry("on my way", "omw", "en"), Entry("Zbigniew"))
        assert dictionary.skipped == 1


def test_swiftkey_has_much_that_is_no_word(tmp_path):
    terms = [
        "\n",
        " ",
        "!",
        "#6#",
        "#Agenda",
        "Kagi",
        "kagi",
        "Kagi",
        "4711",
        "two words",
        7,
        "naïve",
    ]
    dictionary = read(tmp_path, json.dumps({"last_sync": "2026-01-01", "terms": terms}))
    assert [entry.word for entry in dictionary.entries] == ["#Agenda", "Kagi", "kagi", "naïve"]
    assert dictionary.skipped == 7


def test_android(tmp_path):
    xml = (
        '<?xml version="1.0"?><words><w word="Zoë" locale="de_DE" frequency="250"/>'
        '<w word="by the way" shortcut="btw"/></words>'
    )
    entries = read(tmp_path, xml).entries
    assert entries == (Entry("Zoë", "", "de"), Entry("by the way", "btw"))


def test_a_list_of_words(tmp_path):
    assert read(tmp_path, "# mine\n\nKagi\n Zoë \n").entries == (Entry("Kagi"), Entry("Zoë"))


@pytest.mark.parametrize("name", ["mine.txt", "mine.zip"])
def test_what_is_written_is_read(tmp_path, name):
    entries = (Entry("on my way", "omw", "en"), Entry("Zbigniew"), Entry("über", "", "de"))
    path = tmp_path / name
    dictionary_files.write(entries, path)
    assert dictionary_files.read(path) == dictionary_files.Dictionary(entries, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_bytes()
    dictionary_files.write(entries, path)
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PK\x03\x04 damaged", "the archive is damaged"),
        (archive("dictionary.txt", "x")[:-10] + b"\xff" * 3 + b"\0" * 7, "the archive is damaged"),
        ('<?xml version="1.0" encoding="UTF-99"?><a word="b"/>', "not XML"),
        (archive("other.txt", "x"), "the archive has no dictionary.txt"),
        (b"\xff\xfe", "not UTF-8"),
        ("a\tb\tc\td\n", "line 1: has 4 columns"),
        ("{", "not JSON"),
        ('{"terms": 7}', "has no list"),
        ("<a", "not XML"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a word="&x;"/>', "document type or entities"),
        ('<!DOCTYPE a><a word="y"/>'.encode("utf-16-le"), "document type or entities"),
        ("", "has no word"),
        ("42\n!\n", "has no word"),
        ("[" * 100_000, "has no word"),
        ('{"terms": ' + "[" * 100_000, "not JSON"),
    ],
    ids=range(15),
)
def test_bad_files_are_one_line(tmp_path, content, problem):
    with pytest.raises(DataError, match=problem) as error:
        read(tmp_path, content)
    assert "\n" not in str(error.value)


def test_sizes_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(dictionary_files, "MAX_ENTRIES", 2)
    with pytest.raises(DataError, match="at most 2 entries, got 3"):
        read(tmp_path, "a\nb\nc\n")
    monkeypatch.setattr(dictionary_files, "MAX_BYTES", 1_000)
    with pytest.raises(DataError, match=r"dictionary\.txt has more than 1,000 bytes"):
        read(tmp_path, archive("dictionary.txt", "a" * 5_000))
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path, "a" * 1_001)


@given(st.binary(max_size=60), st.sampled_from([b"", b"PK\x03\x04", b"{", b"<", b'{"terms":[']))
@examples(200)
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, content, head):
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(head + content)
    problem = ""
    try:
        assert all(entry.word for entry in dictionary_files.read(path).entries)
    except DataError as error:
        problem = str(error)
    assert len(problem.splitlines()) <= 1
