"""CUDA graphs: what a function asks of the GPU, recorded once and then launched as a whole.

Several threads may compute at the same time: one trains while another translates. But recording
changes, for the whole process, where random numbers come from, and every launch and every new seed
looks there. So recording, launching and seeding exclude each other; computing does not.
"""

import threading
from collections.abc import Callable

import torch

_LOCK = threading.Lock()
# Calls of other threads, such as memory for the batch that is being prepared, do no harm.
_MODE = "thread_local"

Action = Callable[[], None]


class Recorder:
    """Records functions that share their working memory: only one of them may run at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(
        self, function: Action, *, warm_ups: int = 1, before: Action | None = None
    ) -> Action:
        """The function as one that launches all it does at once.

        It must not look at the device. It runs a few times before, so that libraries choose their
        algorithms and set up their work space; `before` then mends what that has done.
        """
        with _LOCK:
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(warm_ups):
                    function()
            torch.cuda.current_stream().wait_stream(stream)
            if before is not None:
                before()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode=_MODE):
                function()

        def launch() -> None:
            with _LOCK:
                graph.replay()

        return launch


def set_seed(seed: int) -> None:
    """`torch.manual_seed`, while no thread records."""
    with _LOCK:
        torch.manual_seed(seed)
