"""Parts of what people typed."""

import pytest

from tff_keyboard.evaluation.counts import typed_text
from tff_keyboard.evaluation.counts.typed_text import TypedText

TEXT = TypedText("some", ("a", "b", "c"), ([["x", "y"], ["z"], ["u"]], [["v"] * 5], [["w"], ["w"]]))


@pytest.mark.parametrize(
    "most, counts",
    [(0, (1, 1, 1)), (1, (1, 1, 1)), (2, (1, 1, 2)), (3, (2, 1, 2)), (9, (3, 1, 2))],
)
def test_the_first_words_are_whole_messages_and_one_at_least(most, counts):
    found = typed_text.first_words(TEXT, most)
    assert tuple(map(len, found.messages)) == counts
    for mine, all_of_them in zip(found.messages, TEXT.messages, strict=True):
        assert mine == all_of_them[: len(mine)]
    assert found.people == TEXT.people


@pytest.mark.parametrize("most, people", [(1, 1), (4, 1), (5, 2), (9, 2), (10, 3), (99, 3)])
def test_the_first_people_type_about_so_many_words(most, people):
    assert typed_text.first_people(TEXT, max_words=most).people == TEXT.people[:people]
