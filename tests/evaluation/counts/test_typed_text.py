"""Parts of a typed text."""

import pytest

from tff_keyboard.evaluation.counts import text_blocks, typed_text
from tff_keyboard.evaluation.counts.typed_text import TypedText

TEXT = TypedText("some", ("a", "b", "c"), ([["x", "y"], ["z"], ["u"]], [["v"] * 5], [["w"], ["w"]]))


@pytest.mark.parametrize(
    "most, counts",
    [(0, (1, 1, 1)), (1, (1, 1, 1)), (2, (1, 1, 2)), (3, (2, 1, 2)), (9, (3, 1, 2))],
)
def test_first_words_are_whole_messages_and_at_least_one(most, counts):
    actual = typed_text.first_words(TEXT, most)
    assert tuple(map(len, actual.messages)) == counts
    for mine, all_of_them in zip(actual.messages, TEXT.messages, strict=True):
        assert mine == all_of_them[: len(mine)]
    assert actual.clients == TEXT.clients


@pytest.mark.parametrize("most, people", [(1, 1), (4, 1), (5, 2), (9, 2), (10, 3), (99, 3)])
def test_first_people_have_about_max_words(most, people):
    assert typed_text.first_clients(TEXT, max_words=most).clients == TEXT.clients[:people]


@pytest.mark.parametrize(
    "name, content",
    [
        ("plain.txt", "see you\nwhere are you\n"),
        ("chat.tsv", "zebra\tsee you\nowl\twhere are you\n"),
        ("chat.csv", "user,text\nzebra,see you\nowl,where are you\n"),
        ("chat.txt", "31.12.23, 21:41 - Zebra: see you\n31.12.23, 21:42 - Owl: where are you\n"),
        (
            "chat.jsonl",
            '{"user": 1, "text": "see you"}\n{"user": 2, "text": "where are you"}',
        ),
    ],
)
def test_file_with_users_is_read_without_their_names(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    actual = text_blocks.read_text(
        tmp_path / name, lambda lines: [line.split() for line in lines], blocks=2
    )
    assert actual.messages == ([["see", "you"]], [["where", "are", "you"]])
