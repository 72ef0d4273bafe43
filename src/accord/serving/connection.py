"""One connection, with deadlines where uvicorn has none: for requests that never end arriving."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_GRACE = 2.0
"""Seconds by which the application's own deadline, which answers, comes first."""


def connection_class(seconds: float) -> type[H11Protocol]:
    """Connections on which a request must have arrived so many seconds after it began to.

    The application answers a slow body with 408. Here, connections are cut off that send no whole
    header, go on sending after they were answered, or do not fetch their answer.
    """

    class Connection(H11Protocol):
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            if self.transport.get_write_buffer_size():
                self.loop.call_later(seconds, self.transport.abort)

        def _watch(self) -> None:
            arriving = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
            if not arriving:
                self._unwatch()
            elif self.deadline is None:
                self.deadline = self.loop.call_later(seconds + _GRACE, self.transport.abort)

        def _unwatch(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return Connection
