"""Middleware around every request: an id, a log line, figures, safe headers, no traceback.

`Observed` goes outermost, `Guarded` innermost: what lies between sees refusals and failures, too.
"""

import logging
import random
import re
import time
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from accord.serving.access_log import Log
from accord.serving.admission import GONE, Gate
from accord.serving.messages import Refusal
from accord.serving.metrics_text import Meter

_LOGGER = logging.getLogger("accord.serving")
_FACTS, _IDENTITY = "accord.facts", "accord.identity"
_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def note(request: Request, **facts: Any) -> None:
    """Add to what the log will say of a request."""
    request.scope.setdefault(_FACTS, {}).update(facts)


def refused(refusal: Refusal) -> JSONResponse:
    """A refusal as the client gets it."""
    return JSONResponse({"error": refusal.message}, refusal.status, refusal.headers())


class Observed:
    """Wraps an application and tells of every request."""

    def __init__(self, app: ASGIApp, meter: Meter, log: Log) -> None:
        self._app = app
        self._meter = meter
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        scope[_IDENTITY] = identity = _identity(scope)
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, identity)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            self._record(scope, status or GONE, time.perf_counter() - begun, identity)

    def _record(self, scope: Scope, status: int, seconds: float, identity: str) -> None:
        path = scope["path"]
        self._meter.request(path, status)
        if path == "/translate" and status == 200:
            self._meter.observe("translate_seconds", seconds)
        self._log.write(
            {
                "method": scope["method"][:20],
                # Who knows the rest of it may fetch the file.
                "path": "/download_file" if path.startswith("/download_file/") else path[:200],
                "status": status,
                "ms": round(1000 * seconds, 1),
                **scope.get(_FACTS, {}),
                "request": identity,
            }
        )


class Guarded:
    """Wraps an application; nothing that it raises gets past, and no more get in than may."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._let_in(scope, receive, noted)
        except Exception as error:  # whatever it is, the client learns nothing of it
            identity = scope[_IDENTITY]
            _LOGGER.error("request %s failed", identity, exc_info=error)
            if not begun:
                problem = JSONResponse({"error": f"internal error (request {identity})"}, 500)
                await problem(scope, receive, send)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            _check_framing(scope)
            self._gate.enter(scope["path"])
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        try:
            if scope["method"] == "HEAD":  # as GET; uvicorn leaves the body out
                scope = {**scope, "method": "GET"}
            await self._app(scope, receive, send)
        finally:
            self._gate.leave()


def _check_framing(scope: Scope) -> None:
    """Refuse a body of two lengths: a proxy might believe the other, and smuggle requests in."""
    names = {name for name, _ in scope["headers"]}
    if {b"content-length", b"transfer-encoding"} <= names:
        reason = "the request has both Content-Length and Transfer-Encoding: send one of them"
        raise Refusal(400, reason, close=True)


def _identity(scope: Scope) -> str:
    """The id that a proxy has given the request, or a new one."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if _GIVEN_ID.fullmatch(given) else f"{random.getrandbits(64):016x}"


def _add_headers(message: Message, identity: str) -> None:
    headers = MutableHeaders(scope=message)
    headers["X-Request-Id"] = identity
    headers.setdefault("Cache-Control", "no-store")
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
