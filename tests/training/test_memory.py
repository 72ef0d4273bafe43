"""Finding out before training into how many parts the largest batch must be split."""

import weakref

import pytest
import torch

from accord.errors import AccordError
from accord.training.trial import parts_that_fit

SHAPES = [(100, 8), (60, 16), (20, 40)]


class Device:
    """Holds `capacity` tokens at once, and keeps hold of what an attempt left behind."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tried: list[tuple[int, int]] = []
        self.held: list[weakref.ref] = []

    def __call__(self, batch, shape) -> None:
        assert not any(held() is not None for held in self.held), "an earlier attempt lives on"
        rows, length = batch.source_BS.shape
        assert batch.target_BT.shape == (rows, length)
        assert batch.target_tokens == rows * length
        assert shape == (rows, length)
        self.tried.append((rows, length))
        if rows * length > self.capacity:
            intermediate = torch.zeros(rows, length)
            self.held.append(weakref.ref(intermediate))
            raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize(
    ("capacity", "parts"), [(10_000, 1), (960, 1), (959, 2), (400, 4), (200, 8), (40, 32)]
)
def test_parts_are_doubled_until_the_largest_batches_fit(capacity, parts):
    device = Device(capacity)
    assert parts_that_fit(device, SHAPES, 50, 1) == parts
    # The batch with the most tokens and the one with the longest rows, in the size found.
    assert set(device.tried[-2:]) == {(-(-60 // parts), 16), (-(-20 // parts), 40)}


def test_the_search_starts_from_what_the_user_asked_for():
    assert parts_that_fit(Device(10_000), SHAPES, 50, 3) == 3
    assert parts_that_fit(Device(200), SHAPES, 50, 3) == 6


def test_a_row_that_does_not_fit_at_all_is_an_error():
    device = Device(39)
    with pytest.raises(AccordError, match="not even a single row"):
        parts_that_fit(device, SHAPES, 50, 1)
    assert (1, 40) in device.tried


def test_thousands_of_rows_are_split_to_the_last():
    assert parts_that_fit(Device(8), [(4096, 8)], 50, 1) == 4096


def test_another_error_is_not_taken_for_want_of_memory():
    def broken(*_):
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        parts_that_fit(broken, SHAPES, 50, 1)
