"""A replay finds the frequent new words of made users, and none of few users."""

import numpy as np

from tff_keyboard_fleet.on_devices.word_search import WordSearch
from tff_keyboard_lab.benchmarks.fleet import new_words


def test_a_replay_finds_frequent_words_only():
    search = WordSearch(alphabet="abc", letters=2, slots=20, max_cells=4, groups=3, min_devices=3)
    rng = np.random.default_rng(1)
    rare = ["".join(rng.choice(list("abc"), 5)) + "abcabc" for _ in range(90)]
    users = [["abc", "cabab", word] for word in rare]
    users[0].append("b" * 5)
    found = new_words.replay(search, users, np.random.default_rng(2))
    assert found == {"abc": 30.0, "cabab": 30.0}
    users_of = {"abc": 90, "cabab": 90, "bbbbb": 1}
    assert new_words.figures(found, users_of, frequent=45, min_devices=3) == {
        "frequent_new_words": 2,
        "share_found": 1.0,
        "found": 2,
        "found_below_min_devices": 0,
    }
