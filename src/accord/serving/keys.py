"""API keys: read from a file, compared in a time that tells nothing about them."""

import hashlib
import hmac
from pathlib import Path

from accord.errors import AccordError


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
