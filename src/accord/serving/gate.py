"""Who is inside, and whether anybody else may come in."""

from accord.serving.metrics import Meter
from accord.serving.refusal import Refusal

MAX_OPEN = 1000
"""Requests at the same time, being read ones included: each may hold a body in memory."""
ALWAYS = frozenset(("/health", "/health/ready", "/metrics"))
"""What is answered even when nothing else is."""


class Gate:
    """Counts open requests; once it drains, only those inside are served to their end."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.open = 0
        self.draining = False

    def enter(self, path: str) -> None:
        """Let a request in or refuse it; whoever is let in must `leave`."""
        if path not in ALWAYS:
            if self.draining:
                raise Refusal(
                    503, "the server is shutting down: try again soon", retry_after=5, close=True
                )
            if self.open >= MAX_OPEN:
                raise Refusal(
                    429, "too many requests at once: try again later", retry_after=1, close=True
                )
        self._count(1)

    def leave(self) -> None:
        """A request has been answered."""
        self._count(-1)

    def _count(self, change: int) -> None:
        self.open += change
        self._meter.set("open_requests", self.open)
