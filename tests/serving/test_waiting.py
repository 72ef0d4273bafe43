"""The queue without threads: what goes together, what goes first, how much may wait."""

from hypothesis import given
from hypothesis import strategies as st

from accord.serving.batching import Job, Route, Waiting

FR, ES = Route("fr", (), 4), Route("es", (), 4)


def texts(batch):
    return [part.text for part in batch]


def test_a_batch_is_due_when_it_is_full_or_its_first_sentence_has_waited_long_enough():
    waiting = Waiting(10, batch_size=3, delay=1.0)
    assert waiting.due_in(0.0) is None
    waiting.add(Job(["a"], FR), now=0.0)
    waiting.add(Job(["b"], FR), now=0.6)
    assert waiting.due_in(0.75) == 0.25
    assert waiting.due_in(5.0) == 0.0
    waiting.add(Job(["c", "d"], FR), now=0.8)
    assert waiting.due_in(0.8) == 0.0
    assert texts(waiting.take(0.8)) == ["a", "b", "c"]
    assert waiting.due_in(0.8) == 1.0
    assert texts(waiting.take(1.8)) == ["d"]
    assert waiting.take(9.0) == []


def test_as_many_as_the_last_time_wait_for_nobody():
    waiting = Waiting(10, batch_size=4, delay=1.0)
    waiting.add(Job(["a"], FR), now=0.0)
    assert waiting.due_in(0.0) == 1.0  # nobody knows as yet
    waiting.finish(waiting.take(1.0), now=1.0)
    waiting.add(Job(["b"], FR), now=2.0)
    assert waiting.due_in(2.0) == 0.0  # it was alone, and is
    waiting.add(Job(["c", "d"], FR), now=2.0)
    batch = waiting.take(2.0)
    assert texts(batch) == ["b", "c", "d"]
    waiting.finish(batch, now=2.5)
    waiting.add(Job(["e", "f"], FR), now=3.0)
    assert waiting.due_in(3.0) == 1.0  # there were three
    waiting.add(Job(["g"], ES), now=3.5)
    assert waiting.due_in(3.5) == 0.5  # of other routes nothing follows
    waiting.add(Job(["h"], FR), now=3.75)
    assert waiting.due_in(3.75) == 0.0


def test_those_that_came_meanwhile_wait_for_those_just_answered():
    """Else two groups would take turns for ever, each in batches of half the size."""
    waiting = Waiting(10, batch_size=4, delay=1.0)
    waiting.add(Job(["a"], FR), now=0.0)
    first = waiting.take(1.0)
    waiting.add(Job(["b"], FR), now=1.5)
    waiting.finish(first, now=3.0)
    assert waiting.due_in(3.0) == 1.0
    waiting.add(Job(["c"], FR), now=3.25)
    assert waiting.due_in(3.25) == 0.0
    batch = waiting.take(3.25)
    assert texts(batch) == ["b", "c"]
    waiting.add(Job(["d", "e", "f"], FR), now=4.0)
    waiting.finish(batch, now=5.0)
    assert waiting.due_in(5.0) == 1.0  # four are a whole batch
    assert waiting.due_in(6.0) == 0.0


def test_only_what_shares_target_pivots_and_beam_goes_together():
    waiting = Waiting(10, batch_size=9, delay=0.0)
    routes = [FR, ES, Route("fr", ("en",), 4), Route("fr", (), 1)]
    for number, route in enumerate(routes):
        waiting.add(Job([f"a{number}"], route), now=number)
    waiting.add(Job(["b0"], FR), now=9.0)
    taken = [texts(waiting.take(10.0)) for _ in routes]
    assert taken == [["a0", "b0"], ["a1"], ["a2"], ["a3"]]


def test_a_full_batch_does_not_overtake_one_that_has_waited_its_time():
    waiting = Waiting(10, batch_size=2, delay=1.0)
    waiting.add(Job(["old"], ES), now=0.0)
    waiting.add(Job(["a", "b"], FR), now=0.5)
    assert texts(waiting.take(0.5)) == ["a", "b"]
    waiting.add(Job(["c", "d"], FR), now=0.9)
    assert texts(waiting.take(1.0)) == ["old"]


def test_what_is_removed_makes_room_at_once():
    waiting = Waiting(3, batch_size=2, delay=0.0)
    gone, stays = Job(["a", "b"], FR), Job(["c"], FR)
    waiting.add(gone, 0.0)
    waiting.add(stays, 0.0)
    assert not waiting.has_room(1)
    assert waiting.remove(gone) == 2
    assert waiting.has_room(2)
    assert waiting.remove(gone) == 0
    assert texts(waiting.take(1.0)) == ["c"]
    assert len(waiting) == 0


@given(
    st.lists(st.tuples(st.sampled_from([FR, ES]), st.integers(1, 5)), max_size=30),
    st.integers(1, 4),
)
def test_every_sentence_is_taken_once_and_in_the_order_of_its_route(jobs, size):
    waiting = Waiting(1000, size, delay=1.0)
    for number, (route, count) in enumerate(jobs):
        waiting.add(Job([f"{number:02d}-{i}" for i in range(count)], route), float(number))
    taken = {FR: [], ES: []}
    while batch := waiting.take(1e9):
        assert len(batch) <= size
        taken[batch[0].job.route] += texts(batch)
    for route, found in taken.items():
        assert found == sorted(found)
        assert len(found) == sum(count for one, count in jobs if one == route)
    assert len(waiting) == 0
