"""Grouping on disk equals grouping in memory."""

import collections

import hypothesis
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.preparing import grouping

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["b", "a", "é", "a b", "", "A"]),
        st.booleans(),
        st.sampled_from(["x", "y z", "é"]),
    ),
    max_size=40,
)


@hypothesis.given(rows=ROWS, known_users=st.integers(1, 4), block=st.integers(1, 9))
@examples(60)
def test_groups_interleaved_users_in_order(tmp_path_factory, rows, known_users, block):
    path = tmp_path_factory.mktemp("grouping") / "scratch.sqlite"
    groups = grouping.Grouping(path)
    kept = grouping._KNOWN_USERS, grouping._BLOCK
    grouping._KNOWN_USERS, grouping._BLOCK = known_users, block
    try:
        expected = collections.defaultdict(list)
        for user, later, text in rows:
            groups.add_message(groups.add_user(user, None), later, text, text.upper())
            expected[user].append((text, later))
        groups.add_user("silent", "held_out")
        groups.freeze()
        for _ in range(2):
            actual = {
                group.user: [
                    (m, position in group.later) for position, m in enumerate(group.messages)
                ]
                for group in groups.users()
            }
            for group in groups.users():
                assert group.capitals == [message.upper() for message in group.messages]
            assert actual == {**expected, "silent": []}
            assert list(actual) == sorted(actual) == list(groups.user_names())
        assert groups.num_users() == len(expected) + 1
        assert {group.user: group.population for group in groups.users()}["silent"] == "held_out"
    finally:
        grouping._KNOWN_USERS, grouping._BLOCK = kept
        groups.close()
