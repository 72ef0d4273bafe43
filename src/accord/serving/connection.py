"""One connection, with limits where uvicorn has none: for clients that are slow."""

import asyncio
import json
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from accord.serving.settings import ANSWER_FIRST, OTHER_FILES, RETRY_BUSY, WANTED_FILES


def most_connections() -> int:
    """As many as the process may have open files, with some to spare; raises its limit if it may.

    Without files left, connections could not even be refused.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted - min(OTHER_FILES, wanted // 2)


def connection_class(seconds: float) -> type[H11Protocol]:
    """Connections on which a request must have arrived so many seconds after it began to.

    The application answers a slow body with 408. Here, connections are cut off that send no whole
    header, go on sending after they were answered, or do not fetch their answer in as much time
    again.
    """

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.arriving = _Deadline(transport, seconds + ANSWER_FIRST)
            self.leaving = _Deadline(transport, seconds)
            self._watch_arriving()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_arriving()

        def connection_lost(self, exc: Exception | None) -> None:
            self.arriving.stop()
            self.leaving.stop()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch_leaving()

        def resume_writing(self) -> None:
            super().resume_writing()
            if not self.transport.is_closing():  # then all of it must leave in time
                self.leaving.stop()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.transport.is_closing():
                self._watch_leaving()

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            self._watch_leaving()

        def send_400_response(self, msg: str) -> None:
            method = ""
            if self.cycle is not None and not self.cycle.response_complete:
                # Whoever works at the request need not answer it any more.
                self.cycle.disconnected = True
                self.cycle.message_event.set()
                method = self.cycle.scope["method"]
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.write(_NO_HTTP_HEAD if method == "HEAD" else _NO_HTTP)
            # Else it has its answer, and sends nonsense after that.
            self.transport.close()

        def _watch_arriving(self) -> None:
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self.arriving.start()
            else:
                self.arriving.stop()

        def _watch_leaving(self) -> None:
            if self.transport.get_write_buffer_size():
                self.leaving.start()

    return Connection


class _Deadline:
    """Cuts a connection off some seconds after it was started, unless it is stopped before."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on, unless it runs already."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._transport.abort)

    def stop(self) -> None:
        """All is well."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _refusal(status: str, message: str, *headers: str) -> tuple[bytes, bytes]:
    """An answer to a request that is not even read: without its body, and whole."""
    body = json.dumps({"error": message}).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        *headers,
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    head = "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"
    return head, head + body


_, TOO_MANY = _refusal(
    "429 Too Many Requests", "too many connections: try again later", f"Retry-After: {RETRY_BUSY}"
)
_NO_HTTP_HEAD, _NO_HTTP = _refusal("400 Bad Request", "this is not a valid HTTP request")
