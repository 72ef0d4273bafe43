"""Streams of threads and the one that is recorded; what needs no GPU to be checked."""

from itertools import count

import pytest
import torch

from accord.model import recording


@pytest.mark.parametrize("before", range(5))
def test_no_thread_works_on_the_stream_that_is_recorded(monkeypatch, before):
    """As PyTorch does, a few streams are given out in turns."""
    given = count()
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: next(given) % 3)
    recording._recorded.cache_clear()
    try:
        recorded = recording._recorded(0)
        for _ in range(before):  # others take streams too
            next(given)
        found = [recording.own_stream(torch.device("cuda", 0)) for _ in range(7)]
    finally:
        recording._recorded.cache_clear()
    assert recorded not in found
