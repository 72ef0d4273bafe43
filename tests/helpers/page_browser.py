"""The page in a browser, as tests of it see it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect
DIRECT = (
    "La Commission a présenté aujourd’hui une nouvelle proposition. Nous l’examinerons en juillet."
)
PIVOT = (
    "La Commission a déposé une nouvelle proposition aujourd’hui. Nous l’examinerons en juillet."
)


@dataclass
class Opened:
    """A page, and what the browser had to say about it."""

    page: "sync_api.Page"
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def marked(self, where: str) -> list[str]:
        return self.page.locator(f"{where} .marked").all_text_contents()

    def focused(self) -> str:
        active = "document.activeElement"
        return str(
            self.page.evaluate(
                f"{active}.id || {active}.dataset.code || {active}.textContent.trim()"
            )
        )

    def listeners(self) -> dict[str, Callable[..., None]]:
        return {"pageerror": self._complain, "console": self._complain, "request": self._request}

    def leave(self, *, close: bool) -> None:
        """Nothing of this visit is to be seen by the next one."""
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.goto("about:blank")
        for event, listener in self.listeners().items():
            self.page.remove_listener(event, listener)
        if close:
            self.page.context.close()

    def _complain(self, complaint: object) -> None:
        self.complaints.append(getattr(complaint, "text", str(complaint)))

    def _request(self, request: "sync_api.Request") -> None:
        self.hosts.add(urlsplit(request.url).netloc)

    def write(self, text: str) -> None:
        self.page.fill("#text", text)

    def translated(self, text: str, pane: str = "direct") -> None:
        shown = f"document.querySelector('#{pane} .output').textContent"
        # `expect` looks again after 0.1 s, then after 0.25 s, and so on: too slow for so many.
        try:
            self.page.wait_for_function(f"text => {shown} === text", arg=text, timeout=5000)
        except sync_api.TimeoutError:
            assert self.page.evaluate(shown) == text


Open = Callable[..., Opened]
