"""CUDA graphs: what a function asks of the GPU, recorded once and then launched as a whole.

Several threads may compute at the same time: one trains while another translates. But recording
changes, for the whole process, where random numbers come from, and every launch and every new seed
looks there. So recording, launching and seeding exclude each other; computing does not, as long as
it is never done on the stream that is recorded.
"""

import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.Lock()
# Calls of other threads, such as memory for the batch that is being prepared, do no harm.
_MODE = "thread_local"
# Of a stream: the lower number goes first; others have 0.
_FIRST = -1

Action = Callable[[], None]

_recordings = 0


def recordings() -> int:
    """How many this process has made so far. Each takes as long as many launches."""
    return _recordings


class Recorder:
    """Records functions that share their working memory: only one of them may run at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._recorded = weakref.WeakSet[torch.cuda.CUDAGraph]()

    def __call__(
        self, function: Action, *, warm_ups: int = 1, before: Action | None = None
    ) -> Action:
        """The function as one that launches all it does at once.

        It must not look at the device. It runs a few times before, so that libraries choose their
        algorithms and set up their work space; `before` then mends what that has done.
        """
        global _recordings
        with _LOCK:
            _recordings += 1
            # A graph keeps the priority of the stream that it was recorded on.
            priority = torch.cuda.current_stream().priority
            warming, recorded = _streams(torch.cuda.current_device(), priority)
            warming.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(warming):
                for _ in range(warm_ups):
                    function()
            torch.cuda.current_stream().wait_stream(warming)
            if before is not None:
                before()
            graph = torch.cuda.CUDAGraph()
            if not self._recorded:  # a pool ends with the last of its graphs
                self._pool = torch.cuda.graph_pool_handle()
            self._recorded.add(graph)
            with _nothing_collected(), torch.cuda.graph(graph, self._pool, recorded, _MODE):
                function()

        def launch() -> None:
            with _LOCK:
                graph.replay()

        return launch


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """A recording is void if its thread destroys another graph, as the garbage collector may."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@functools.cache
def _streams(device: int, priority: int) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    """Two streams of a device: where functions warm up, and the one that is recorded.

    Always the same two of a priority, since every stream ever used for matrix products keeps a work
    space. And two: PyTorch 2.13 gives up that of the recorded stream with any graph that ends. If
    it was allocated by a recording, it stays with the graphs that write to it; by a warm-up, it
    would not.
    """
    return _stream(device, priority), _stream(device, priority)


def own_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream for the work of a thread beside training; its kernels go first.

    They are many and small: behind training's large ones each of them would wait for its turn.

    PyTorch has 32 streams and gives them out in turns, so that a new one may be an old one: the
    recorded stream would take what this thread does for a part of what another one records.
    """
    with _LOCK:
        index = torch.cuda.current_device() if device.index is None else device.index
        while (stream := _stream(index, _FIRST)) in _streams(index, _FIRST):
            pass
    return stream


def _stream(device: int, priority: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device, priority)  # type: ignore[no-untyped-call]


def set_seed(seed: int) -> None:
    """`torch.manual_seed`, while no thread records."""
    with _LOCK:
        torch.manual_seed(seed)
