"""Admission: how many requests at once, how large and how slow their bodies, whose API keys."""

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from starlette.requests import Request

from accord.errors import AccordError
from accord.serving.messages import SHUTTING_DOWN, Refusal
from accord.serving.metrics_text import Meter
from accord.serving.settings import (
    LINGER,
    MAX_OPEN,
    PEEKED,
    RETRY_BUSY,
    RETRY_SOON,
    ServeSettings,
)

ALWAYS = frozenset(("/health", "/health/ready", "/metrics"))
"""What is answered even when nothing else is."""


def is_always(sent: bytes) -> bool:
    """Whether a request that begins with these bytes is for one of them."""
    words = sent[:PEEKED].split(b" ", 2)
    return len(words) > 1 and words[1].partition(b"?")[0].decode("latin-1") in ALWAYS


class Gate:
    """Counts open requests; once it drains, only those inside are served to their end."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.open = 0
        self.draining = False
        self.queue_full: Callable[[], bool] = lambda: False
        """Whether not one sentence more may wait."""

    def has_room(self, requests: int) -> bool:
        """Whether one more beside so many would not only be read to be refused."""
        return requests < MAX_OPEN and not self.queue_full()

    def count_refused_connection(self) -> None:
        """A connection was refused before its request was read."""
        self._meter.add("refused_connections_total")

    def enter(self, path: str) -> None:
        """Let a request in or refuse it; whoever is let in must `leave`."""
        if path not in ALWAYS:
            if self.draining:
                raise Refusal(503, SHUTTING_DOWN, retry_after=RETRY_SOON, close=True)
            if self.open >= MAX_OPEN:
                reason = "too many requests at once: try again later"
                raise Refusal(429, reason, retry_after=RETRY_BUSY, close=True)
        self._count(1)

    def leave(self) -> None:
        """A request has been answered."""
        self._count(-1)

    def _count(self, change: int) -> None:
        self.open += change
        self._meter.set("open_requests", self.open)


# --- Bodies read piece by piece: never more than allowed, never for longer than allowed.


GONE = 499
"""Status in the log of requests whose client did not wait for the answer; nobody receives it."""


async def read_body(request: Request, settings: ServeSettings, most: int | None = None) -> bytes:
    """The whole body, of at most so many bytes (else --max-body).

    What the client says of its length is believed only if it is too long.
    """
    most = settings.max_body if most is None else most
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > most:
        raise await _too_large(request, most)
    body = bytearray()
    try:
        async with asyncio.timeout(settings.read_timeout):
            async for chunk in _chunks(request):
                body += chunk
                if len(body) > most:
                    break
    except TimeoutError:
        message = f"the request did not arrive within {settings.read_timeout:g} seconds"
        raise Refusal(408, f"{message}: send it faster", close=True) from None
    if len(body) > most:
        raise await _too_large(request, most)
    return bytes(body)


async def client_gone(request: Request) -> None:
    """Return when the client has closed the connection; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Refusal(GONE, "the client has gone")
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _too_large(request: Request, most: int) -> Refusal:
    # A client that is still sending when the connection closes never sees the answer. So a little
    # more is read and thrown away, unless it waits for our word to send at all.
    if request.headers.get("expect", "").lower() != "100-continue":
        with contextlib.suppress(TimeoutError, Refusal):
            async with asyncio.timeout(LINGER):
                async for _ in _chunks(request):
                    pass
    return Refusal(
        413, f"the body is larger than {most:,} bytes: send the text in parts", close=True
    )


# --- API keys: read from a file, compared in a time that tells nothing about them.


def read_keys(path: Path) -> tuple[str, ...]:
    """The keys in a file, one a line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise AccordError(
            f"the API keys cannot be read: {reason}", where=str(path), fix="check the file"
        ) from None
    keys = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not keys:
        raise AccordError(
            "there is no API key in it",
            where=str(path),
            fix="write one key a line, or leave --api-key-file out to let everybody translate",
        )
    return keys


class Keys:
    """Knows who may translate; with no keys, everybody may."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        # Digests have one length, so that comparing them does not tell how long a key is.
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def allow(self, given: str | None) -> bool:
        """Whether this is one of the keys; all of them are compared, to the last byte."""
        digest = _digest(given or "")
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        return not found or any(found)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
