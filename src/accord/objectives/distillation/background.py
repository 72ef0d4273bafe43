"""Work beside training: a thread of its own and, on a GPU, a stream of its own."""

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

from accord.ops.cuda_graphs import own_stream

T = TypeVar("T")

# Work that is told to stop does so after its present batch; nobody should wait longer than this.
_JOIN_SECONDS = 30.0
# Seconds after which Python code here lets training go on, which asks often and needs little. With
# Python's own 5 ms, training would wait for lists of sentences several times in each update.
_TURN = 0.0002


class Worker(Generic[T]):
    """Does one piece of work at a time. It must draw no random numbers: those are training's."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # One stream for all work: freed memory is used again only by the stream that had it.
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = own_stream(device)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def stopped(self) -> bool:
        """Whether the work should give up."""
        return self._stop.is_set()

    def start(self, work: Callable[[], T]) -> None:
        """Begin; work that was begun before must have been waited for."""
        threads = torch.get_num_threads()
        usual = sys.getswitchinterval()

        def run() -> None:
            sys.setswitchinterval(_TURN)
            try:
                torch.set_num_threads(threads)  # a new thread would take all cores for products
                with torch.no_grad(), self._placed():
                    self._value = work()
            except BaseException as error:  # noqa: BLE001 - raised again in the one who waits
                self._error = error
            finally:
                sys.setswitchinterval(usual)

        self._value = self._error = None
        self._thread = threading.Thread(target=run, name="pool", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for so long at most; whether the work has ended, well or not."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    @property
    def failed(self) -> bool:
        """Whether work that has ended has ended badly."""
        return self._error is not None

    def explain(self, error: BaseException) -> None:
        """Tell an error of training that this work failed before it, which may be the cause.

        A recording that fails here leaves the random numbers of the whole process unusable.
        """
        if self._error is not None and self._error is not error:
            error.add_note(f"before that:\n{''.join(traceback.format_exception(self._error))}")

    def result(self) -> T:
        """Wait for the work and return what it made."""
        if self._thread is None:
            raise ValueError("there is no work to wait for")
        self._thread.join()
        self._thread = None
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def close(self) -> None:
        """Give up whatever is being done."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    @contextmanager
    def _placed(self) -> Iterator[None]:
        if self._stream is None:
            yield
            return
        torch.cuda.set_device(self._device)
        self._stream.wait_stream(torch.cuda.default_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield
            self._stream.synchronize()
