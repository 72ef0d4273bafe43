"""How long work tells what it is doing; the command line draws it, libraries stay silent."""

from typing import Protocol


class Progress(Protocol):
    """Told what is being done and how far it has come."""

    def start(self, what: str, total: int | None = None) -> None:
        """A new piece of work, of so many steps if that is known."""

    def reach(self, done: int, detail: str = "") -> None:
        """So many steps of it are done; `detail` says more about how it is going."""

    def note(self, text: str) -> None:
        """Something worth knowing, said once."""


class Silent:
    """Shows nothing."""

    def start(self, what: str, total: int | None = None) -> None:
        """Nothing to show."""

    def reach(self, done: int, detail: str = "") -> None:
        """Nothing to show."""

    def note(self, text: str) -> None:
        """Nothing to show."""
