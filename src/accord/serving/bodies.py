"""Bodies read piece by piece: never more than allowed, never for longer than allowed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import Request

from accord.serving.refusal import Refusal
from accord.serving.settings import ServeSettings

GONE = 499
"""Status in the log of requests whose client did not wait for the answer; nobody receives it."""
_LINGER = 1.0


async def read_body(request: Request, settings: ServeSettings) -> bytes:
    """The whole body. What the client says of its length is believed only if it is too long."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > settings.max_body:
        raise await _too_large(request, settings)
    body = bytearray()
    try:
        async with asyncio.timeout(settings.read_timeout):
            async for chunk in _chunks(request):
                body += chunk
                if len(body) > settings.max_body:
                    break
    except TimeoutError:
        message = f"the request did not arrive within {settings.read_timeout:g} seconds"
        raise Refusal(408, f"{message}: send it faster", close=True) from None
    if len(body) > settings.max_body:
        raise await _too_large(request, settings)
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


async def _too_large(request: Request, settings: ServeSettings) -> Refusal:
    # A client that is still sending when the connection closes never sees the answer. So a little
    # more is read and thrown away, unless it waits for our word to send at all.
    if request.headers.get("expect", "").lower() != "100-continue":
        with contextlib.suppress(TimeoutError, Refusal):
            async with asyncio.timeout(_LINGER):
                async for _ in _chunks(request):
                    pass
    limit = f"{settings.max_body:,} bytes"
    return Refusal(413, f"the body is larger than {limit}: send the text in parts", close=True)
