"""Around every request: an id, a log line, figures, safe headers, and no traceback for clients."""

import logging
import re
import secrets
import time
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from accord.serving.bodies import GONE
from accord.serving.gate import Gate
from accord.serving.log import Log
from accord.serving.metrics import Meter
from accord.serving.refusal import Refusal

_LOGGER = logging.getLogger("accord.serving")
_FACTS = "accord.facts"
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
    """Wraps an application; nothing it raises gets past."""

    def __init__(self, app: ASGIApp, gate: Gate, meter: Meter, log: Log) -> None:
        self._app = app
        self._gate = gate
        self._meter = meter
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        identity = _identity(scope)
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, identity)
            await send(message)

        try:
            await self._guarded(scope, receive, noted)
        except Exception as error:  # whatever it is, the client learns nothing of it
            _LOGGER.error("request %s failed", identity, exc_info=error)
            if not status:
                problem = JSONResponse({"error": f"internal error (request {identity})"}, 500)
                await problem(scope, receive, noted)
        finally:
            self._record(scope, status or GONE, time.perf_counter() - begun, identity)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._gate.enter(scope["path"])
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._gate.leave()

    def _record(self, scope: Scope, status: int, seconds: float, identity: str) -> None:
        path = scope["path"]
        self._meter.request(path, status)
        if path == "/translate" and status == 200:
            self._meter.observe("translate_seconds", seconds)
        self._log.write(
            {
                "method": scope["method"][:20],
                "path": path[:200],
                "status": status,
                "ms": round(1000 * seconds, 1),
                **scope.get(_FACTS, {}),
                "request": identity,
            }
        )


def _identity(scope: Scope) -> str:
    """The id that a proxy has given the request, or a new one."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(8)


def _add_headers(message: Message, identity: str) -> None:
    headers = MutableHeaders(scope=message)
    headers["X-Request-Id"] = identity
    headers.setdefault("Cache-Control", "no-store")
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
