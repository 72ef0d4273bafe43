"""A thread that makes the next items while the consumer works on the present one."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")

_DEPTH = 8
# A thread in the middle of an item ends after it; longer than this nobody should wait for that.
_JOIN_SECONDS = 5.0


class Prefetcher(Generic[T]):
    """Iterates over `items`, transformed, that a background thread keeps ready in order.

    An exception in the thread is raised where the item would have come. `wait_seconds` is the time
    the consumer has spent waiting: the share of it in a step tells whether data is the bottleneck.
    """

    @overload
    def __init__(self, items: Iterable[T], *, depth: int = ...) -> None: ...
    @overload
    def __init__(
        self, items: Iterable[S], *, transform: Callable[[S], T], depth: int = ...
    ) -> None: ...
    def __init__(
        self,
        items: Iterable[Any],
        *,
        transform: Callable[[Any], T] | None = None,
        depth: int = _DEPTH,
    ) -> None:
        self.wait_seconds = 0.0
        self._items = items
        self._transform = transform
        self._depth = depth
        self._ready: deque[T] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._produce, name="prefetch", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        began = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended or self._closed)
            self.wait_seconds += time.perf_counter() - began
            if self._ready:
                item = self._ready.popleft()
                self._changed.notify_all()
                return item
        if self._error is not None and not self._closed:
            raise self._error
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread and drop what it has made ahead."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join(_JOIN_SECONDS)

    def _produce(self) -> None:
        try:
            for item in self._items:
                if not self._offer(item if self._transform is None else self._transform(item)):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _offer(self, item: T) -> bool:
        """Wait for room and add the item; False once nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._ready) < self._depth)
            if not self._closed:
                self._ready.append(item)
                self._changed.notify_all()
            return not self._closed
