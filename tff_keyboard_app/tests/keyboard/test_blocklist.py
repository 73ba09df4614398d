import pytest

from tff_keyboard.storage.errors import ExportError
from tff_keyboard_app.keyboard.blocklist import Blocklist, entries_of, packaged_entries


def test_words_and_starts_in_any_case():
    blocklist = Blocklist(["Duck", "goos*"])
    assert [word in blocklist for word in ("duck", "DUCK", "ducks", "goose", "goo")] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert "goose" not in Blocklist()


@pytest.mark.parametrize("entry", ["", "*", "two words", "in*side", "a**"])
def test_refuses_what_is_no_word(entry):
    with pytest.raises(ValueError, match="one word"):
        Blocklist([entry])


def test_the_packaged_list_leaves_common_words_alone():
    blocklist = Blocklist(packaged_entries("en"))
    common = "class assess pass cocktail dickens hello analysis title peacock scrap shift sussex"
    assert [word for word in common.split() if word in blocklist] == []
    assert "fucking" in blocklist
    assert packaged_entries("none") == []


def test_files_have_remarks_and_say_where_they_are_wrong(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("# mine\n\nduck  # a bird\ngoos*\n")
    assert entries_of(path) == ["duck", "goos*"]
    path.write_bytes(b"\xef\xbb\xbfduck\n")  # as Windows' editor saves it
    assert entries_of(path) == ["duck"]
    path.write_text("duck\ntwo words\n")
    with pytest.raises(ExportError, match="line 2: an entry must be one word") as raised:
        entries_of(path)
    assert "two words" not in str(raised.value)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ExportError, match="not UTF-8"):
        entries_of(path)
    path.write_bytes(b"a\n" * 600_000)
    with pytest.raises(ExportError, match="got 1200000"):
        entries_of(path)
    with pytest.raises(ExportError, match="cannot be read"):
        entries_of(tmp_path / "none.txt")
