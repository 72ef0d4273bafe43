import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from accord.data.batches import BatchStream, Position
from accord.data.prefetch import Prefetcher
from accord.data.store import ParallelCorpus, Sentences


class Source:
    """Counts how far the thread has read."""

    def __init__(self, stop: int | None = None) -> None:
        self.made = 0
        self.stop = stop

    def __iter__(self) -> Iterator[int]:
        while self.stop is None or self.made < self.stop:
            self.made += 1
            yield self.made


def wait_until(condition: object, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.001)


def test_items_come_in_order_and_end() -> None:
    with Prefetcher(range(100)) as items:
        assert list(items) == list(range(100))
        assert list(items) == []


def test_transform_runs_in_the_thread() -> None:
    def transform(item: int) -> tuple[int, str]:
        return -item, threading.current_thread().name

    with Prefetcher(range(3), transform=transform) as items:
        assert list(items) == [(0, "prefetch"), (-1, "prefetch"), (-2, "prefetch")]


def test_slow_consumer_holds_the_thread_at_the_depth() -> None:
    source = Source()
    with Prefetcher(source, depth=3) as items:
        wait_until(lambda: source.made == 4)  # three ready, one in hand
        time.sleep(0.02)
        assert source.made == 4
        assert next(items) == 1
        wait_until(lambda: source.made == 5)
        assert items.wait_seconds < 1.0


def test_fast_consumer_waits_and_says_how_long() -> None:
    def slow() -> Iterator[int]:
        for item in range(3):
            time.sleep(0.05)
            yield item

    with Prefetcher(slow()) as items:
        assert list(items) == [0, 1, 2]
        assert items.wait_seconds >= 0.1


def test_an_error_comes_after_the_items_made_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("broken")

    with Prefetcher(failing()) as items:
        assert [next(items), next(items)] == [1, 2]
        for _ in range(2):  # asked again, it must not look like a clean end
            with pytest.raises(KeyError, match="broken"):
                next(items)


def test_an_error_in_the_transform_is_raised_too() -> None:
    with Prefetcher([1, 0], transform=lambda item: 1 // item) as items:
        assert next(items) == 1
        with pytest.raises(ZeroDivisionError):
            next(items)


@pytest.mark.parametrize("taken", [0, 2])
def test_close_with_a_full_queue_ends_the_thread(taken: int) -> None:
    source = Source()
    items = Prefetcher(source, depth=2)
    for _ in range(taken):
        next(items)
    wait_until(lambda: source.made == 3 + taken)
    before = time.monotonic()
    items.close()
    assert time.monotonic() - before < 1.0
    assert not items._thread.is_alive()
    assert list(items) == []
    items.close()


def test_leaving_the_block_by_an_error_ends_the_thread() -> None:
    items = Prefetcher(Source())
    with pytest.raises(RuntimeError, match="mine"), items:
        raise RuntimeError("mine")
    assert not items._thread.is_alive()


def test_close_frees_a_consumer_that_waits() -> None:
    gate = threading.Event()

    def stuck() -> Iterator[int]:
        gate.wait()
        yield 1

    items = Prefetcher(stuck())
    got: list[list[int]] = []
    consumer = threading.Thread(target=lambda: got.append(list(items)))
    consumer.start()
    closer = threading.Thread(target=items.close)
    closer.start()
    consumer.join(5.0)
    assert got == [[]]
    gate.set()
    closer.join(5.0)
    assert not items._thread.is_alive()


def small_stream() -> BatchStream:
    side = Sentences.of([[10 + line] * (line % 5) for line in range(40)])
    corpus = ParallelCorpus(("en", "de"), (side, side), (("en", "de"), ("de", "en")))
    return BatchStream([corpus], ("en", "de"), {"en": 2, "de": 3}, batch_tokens=50, seed=1)


def test_a_run_resumes_from_the_position_that_was_delivered() -> None:
    expected = [
        (position, batch.line_B.tolist())
        for position, batch in itertools.islice(small_stream(), 40)
    ]
    assert expected[-1][0].epoch > 1
    position = Position()
    got = []
    for taken in (7, 1, 20, 12):
        stream = small_stream()
        stream.seek(position)
        with Prefetcher(stream) as items:
            for position, batch in itertools.islice(items, taken):
                got.append((position, batch.line_B.tolist()))
    assert got == expected
