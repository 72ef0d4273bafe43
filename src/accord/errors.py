"""The one error a user should ever see: what is wrong, where, and how to mend it."""

from collections.abc import Iterator
from contextlib import contextmanager


class AccordError(Exception):
    """A problem that the user can mend.

    `what` says what is wrong (with the offending value), `where` names the file, line or key, and
    `fix` says what to do about it.
    """

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  fix: {self.fix}" if self.fix else text

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders during `prepare`; keyword-only arguments need help to.
        return (_rebuild, (self.what, self.where, self.fix))


def _rebuild(what: str, where: str | None, fix: str | None) -> AccordError:
    return AccordError(what, where=where, fix=fix)


@contextmanager
def traced_to(place: str) -> Iterator[None]:
    """Name the place that an error inside goes back to: a key that names another run, say."""
    try:
        yield
    except AccordError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        raise AccordError(what, where=place, fix=error.fix) from error


class AccordWarning(UserWarning):
    """Something the user should know that does not stop the work."""
