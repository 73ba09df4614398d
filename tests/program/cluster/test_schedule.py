"""Whatever happens to nodes, each item has one result, and none is computed without a reason."""

import heapq
import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.program.cluster.schedule import Schedule


def test_items_come_in_order_and_once():
    schedule = Schedule(3)
    assert [schedule.next_item(0.0) for _ in range(4)] == [0, 1, 2, None]


def test_nothing_to_do():
    assert Schedule(0).is_done


def test_a_lost_item_is_next():
    schedule = Schedule(3)
    schedule.begin("a", schedule.next_item(0.0), 0.0)
    schedule.lose("a")
    assert schedule.next_item(1.0) == 0
    schedule.lose("a")  # twice does no harm
    assert schedule.next_item(1.0) == 1


def test_what_could_not_be_sent_is_next():
    schedule = Schedule(2)
    schedule.put_back(schedule.next_item(0.0))
    assert schedule.next_item(0.0) == 0


def half_done(seconds=4.0):
    """Two items, one of which took `seconds`; the other began at 0 and still runs."""
    schedule = Schedule(2)
    schedule.begin("slow", schedule.next_item(0.0), 0.0)
    schedule.begin("b", schedule.next_item(0.0), 0.0)
    assert schedule.finish("b", seconds) == 1
    return schedule


def test_a_straggler_is_computed_twice_and_counts_once():
    schedule = half_done()
    assert schedule.next_item(12.0) is None  # three medians
    assert schedule.next_item(12.1) == 0
    schedule.begin("copy", 0, 12.1)
    assert schedule.next_item(100.0) is None  # not a third time
    assert schedule.finish("copy", 13.0) == 0
    assert schedule.is_done
    assert schedule.finish("slow", 14.0) is None


def test_short_items_are_not_computed_twice():
    schedule = half_done(0.01)
    assert schedule.next_item(1.9) is None
    assert schedule.next_item(2.1) == 0


def test_a_lost_copy_leaves_the_straggler_alone():
    schedule = half_done()
    schedule.begin("copy", schedule.next_item(50.0), 50.0)
    schedule.lose("copy")
    assert schedule.next_item(51.0) == 0  # a copy again, for it still is slow
    schedule.begin("second copy", 0, 51.0)
    schedule.lose("slow")
    assert schedule.next_item(52.0) is None  # the second copy has it


def test_errors_are_bounded():
    schedule = Schedule(1)
    for attempt in range(3):
        schedule.begin(attempt, schedule.next_item(0.0), 0.0)
        assert schedule.fail(attempt) == (attempt < 2)


def test_a_late_error_does_not_count():
    schedule = half_done()
    schedule.begin("copy", schedule.next_item(50.0), 50.0)
    schedule.finish("copy", 51.0)
    assert schedule.fail("slow")
    assert schedule.is_done


def test_what_hangs_is_named():
    schedule = half_done()
    assert schedule.hung(599.0) == []
    assert schedule.hung(601.0) == ["slow"]


def test_a_first_item_may_take_an_hour():
    schedule = Schedule(1)
    schedule.begin("a", schedule.next_item(0.0), 0.0)
    assert schedule.hung(3600.0) == []
    assert schedule.hung(3601.0) == ["a"]


@given(
    items=st.integers(1, 20),
    nodes=st.integers(1, 4),
    chances=st.lists(st.sampled_from(["done", "lost", "fails"]), max_size=30),
    seconds=st.lists(st.floats(0.01, 30.0), min_size=5, max_size=5),
)
@examples(300)
def test_every_item_has_one_result(items, nodes, chances, seconds):
    """A simulation: nodes are busy for some seconds each, and what happens is drawn."""
    schedule = Schedule(items)
    happens = itertools.chain(chances, itertools.repeat("done"))
    took = itertools.cycle(seconds)
    free, running, now, tickets = nodes, [], 0.0, itertools.count()
    results, failed = [], False
    while not schedule.is_done and not failed:
        while free and (position := schedule.next_item(now)) is not None:
            ticket = next(tickets)
            schedule.begin(ticket, position, now)
            heapq.heappush(running, (now + next(took), ticket, position))
            free -= 1
        assert running, "nobody works and nothing is done"
        now, ticket, position = heapq.heappop(running)
        free += 1
        how = next(happens)
        if how == "done":
            finished = schedule.finish(ticket, now)
            assert finished in (None, position)
            results += [] if finished is None else [finished]
        elif how == "lost":
            schedule.lose(ticket)
        else:
            failed = not schedule.fail(ticket)
    if not failed:
        assert sorted(results) == list(range(items))
