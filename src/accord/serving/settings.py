"""How a server is to run: where it listens, what it accepts, how it batches."""

import math
import re
from dataclasses import dataclass, field

from accord.errors import AccordError

MAX_BEAM = 10
"""The largest beam a client may ask for: time and memory grow with it."""
# As browsers send it; one that is written otherwise would never be the same.
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+")


@dataclass(frozen=True)
class ServeSettings:
    """Limits hold for every request on its own; the queue is one for each worker process."""

    host: str = "127.0.0.1"
    port: int = 5000
    """0: any free port."""
    workers: int = 1
    """Processes; each holds the model."""
    max_characters: int = 5000
    """Of all texts of a request together."""
    max_sentences: int = 256
    max_body: int = 262_144
    """Bytes."""
    timeout: float = 30.0
    """Seconds a translation may take, waiting included; what has not begun by then is dropped."""
    read_timeout: float = 10.0
    """Seconds for a client to send its request, and the same again to fetch the answer."""
    queue: int = 1024
    """Sentences that may wait."""
    batch_delay: float = 5.0
    """Milliseconds a sentence may wait for others to be translated together with it."""
    batch_size: int = 32
    """Sentences translated together, at most."""
    beam: int = 4
    """Beam of requests that name none."""
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """None: everybody may translate."""
    cors: tuple[str, ...] = ()
    """Origins of web pages that may read the answers."""
    log_texts: bool = False

    def __post_init__(self) -> None:
        for name in ("workers", "max_characters", "max_sentences", "max_body", "batch_size"):
            _check(name, getattr(self, name) >= 1, getattr(self, name), "give 1 or more")
        for name in ("timeout", "read_timeout"):
            seconds = getattr(self, name)
            _check(name, 0 < seconds < math.inf, seconds, "give a positive number of seconds")
        _check("host", bool(self.host), "empty", "give 0.0.0.0 to listen on all addresses")
        for origin in self.cors:
            fix = "write an origin without a path, such as https://example.org, or *"
            _check("cors", bool(_ORIGIN.fullmatch(origin)), repr(origin), fix)
        _check("batch_delay", 0 <= self.batch_delay < math.inf, self.batch_delay, "give 0 or more")
        _check("beam", 1 <= self.beam <= MAX_BEAM, self.beam, f"give 1 to {MAX_BEAM}")
        _check("port", 0 <= self.port <= 65_535, self.port, "give 0 to 65535")
        _check(
            "queue",
            self.queue >= self.max_sentences,
            self.queue,
            f"a request may have {self.max_sentences} sentences (--max-sentences) and must fit in",
        )


def _check(name: str, good: bool, value: object, fix: str) -> None:
    if not good:
        raise AccordError(f"--{name.replace('_', '-')} cannot be {value}", fix=fix)
