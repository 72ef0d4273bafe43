"""Answers that are not translations: a status and a sentence for the client."""


class Refusal(Exception):  # noqa: N818  # most refusals are no errors of anybody
    """What the client is told instead of an answer.

    `retry_after` (seconds) says when to try again. `close` ends the connection, where the rest of
    the request has not been read and never will be.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: int | None = None, close: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.close = close

    def headers(self) -> dict[str, str]:
        """What goes beside the message."""
        found = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return found | ({"Connection": "close"} if self.close else {})
