"""Recordings, the streams they need, and threads that record, launch and compute side by side."""

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import count

import pytest
import torch
from torch.nn import functional

from accord.ops import cuda_graphs as recording


class Stream(int):
    priority = 0

    def wait_stream(self, other):
        pass


@pytest.fixture
def given(monkeypatch):
    """As PyTorch does, a few streams of each priority are given out in turns."""
    given = {0: count(), -1: count()}

    def stream(device, priority):
        return Stream(next(given[priority]) % 3 + 10 * priority)

    monkeypatch.setattr(torch.cuda, "Stream", stream)
    recording._streams.cache_clear()
    yield given
    recording._streams.cache_clear()


@pytest.mark.parametrize("before", range(5))
def test_no_thread_works_on_a_stream_of_recordings(given, before):
    warming, recorded = recording._streams(0, -1)
    for _ in range(before):  # others take streams too
        next(given[-1])
    found = [recording.own_stream(torch.device("cuda", 0)) for _ in range(7)]
    assert len({warming, recorded, *found}) == 3
    assert not {warming, recorded, *recording._streams(0, 0)} & {*found}


@pytest.fixture
def log(given, monkeypatch):
    """What is done on which stream, on a GPU that is not there."""
    log = []

    @contextmanager
    def used(kind, stream):
        log.append((kind, stream))
        yield

    cuda = {
        "current_device": lambda: 0,
        "current_stream": lambda: Stream(-1),
        "graph_pool_handle": lambda: None,
        "stream": lambda stream: used("computed", stream),
        "CUDAGraph": lambda: nullcontext(),
        "graph": lambda graph, pool, stream, mode: used("recorded", stream),
    }
    for name, fake in cuda.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return log


def test_warming_up_is_done_elsewhere_and_always_there(log):
    for _ in range(40):
        recording.Recorder()(lambda: None)
    (warming,), (recorded,) = (
        {stream for kind, stream in log if kind == wanted} for wanted in ("computed", "recorded")
    )
    assert warming != recorded


def test_recordings_are_counted_and_launches_are_not(log, monkeypatch):
    monkeypatch.setattr(nullcontext, "replay", lambda self: None, raising=False)
    before = recording.recordings()
    launch = recording.Recorder()(lambda: None)
    launch()
    launch()
    assert recording.recordings() == before + 1


def test_nothing_is_collected_while_recording(log):
    seen = []

    def function():
        seen.append(gc.isenabled())
        if len(seen) == 4:
            raise MemoryError

    recorder = recording.Recorder()
    recorder(function)
    with pytest.raises(MemoryError):
        recorder(function)
    assert seen == [True, False] * 2  # a warm-up, then the recording
    assert gc.isenabled()
    assert not recording._LOCK.locked()


@pytest.mark.gpu
def test_threads_that_record_and_launch_do_not_disturb_each_other():
    ones = torch.ones(1000, device="cuda")
    torch.cuda.synchronize()

    def work(_):
        with torch.cuda.stream(recording.own_stream(ones.device)):
            dropped, launches = torch.zeros_like(ones), []
            for _ in range(20):
                recorder = recording.Recorder()
                launches.append(recorder(lambda: dropped.copy_(functional.dropout(ones))))
                for _ in range(50):
                    launches[-1]()
            return dropped.tolist(), launches

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(work, range(3)))
    assert all({*dropped} == {0.0, 2.0} for dropped, _ in found)


@pytest.mark.gpu
def test_no_graph_is_destroyed_while_another_one_is_recorded():
    total = torch.zeros((), device="cuda")

    def function():
        total.add_(1)
        assert [[] for _ in range(5000)]  # things to be looked after make the collector look

    launch = recording.Recorder()(function)
    gc.collect()  # from here on it counts anew
    ring = [launch]
    ring.append(ring)
    del ring, launch
    launch = recording.Recorder()(function, warm_ups=0)
    launch()
    assert total.item() == 2  # once to warm up the first, once here
