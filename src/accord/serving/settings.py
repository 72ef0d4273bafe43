"""How a server is to run: where it listens, what it accepts, how it batches.

These are the limits that `accord serve` has options for, each with its default and its help. Those
that nobody should need to change are constants in limits.py.
"""

import re
from dataclasses import dataclass, field

from accord.serving.limits import MAX_BEAM
from accord.settings_fields import check_settings, flag, require, setting

# As browsers send it; one that is written otherwise would never be the same.
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+")


@dataclass(frozen=True)
class ServeSettings:
    """Limits hold for every request on its own; the queue is one for each worker process."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0: all.")
    port: int = setting(5000, "0: any free port.", least=0, most=65_535)
    workers: int = setting(1, "Processes; each holds the model.", least=1)
    max_characters: int = setting(5000, "Characters in a request, all its texts together.", least=1)
    max_sentences: int = setting(256, "Sentences in a request.", least=1)
    max_body: int = setting(262_144, "Bytes in a request.", least=1)
    timeout: float = setting(
        30.0,
        "Seconds a translation may take, waiting included; what has not begun by then is dropped.",
        above=0,
    )
    read_timeout: float = setting(
        10.0, "Seconds to send a request, and the same again to fetch the answer.", above=0
    )
    queue: int = setting(1024, "Sentences that may wait; at least --max-sentences.", least=1)
    batch_delay: float = setting(
        5.0, "Milliseconds to wait for sentences to translate together.", least=0
    )
    batch_size: int = setting(32, "Sentences translated together, at most.", least=1)
    beam: int = setting(4, "Beam of requests that name none.", least=1, most=MAX_BEAM)
    log_texts: bool = setting(False, "Texts in the log as well; else only their length.")
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """None: everybody may translate."""
    cors: tuple[str, ...] = ()
    """Origins of web pages that may read the answers."""

    def __post_init__(self) -> None:
        check_settings(self, flag)
        require("--host", bool(self.host), "empty", "give 0.0.0.0 to listen on all addresses")
        for origin in self.cors:
            fix = "write an origin without a path, such as https://example.org, or *"
            require("--cors", bool(_ORIGIN.fullmatch(origin)), repr(origin), fix)
        require(
            "--queue",
            self.queue >= self.max_sentences,
            self.queue,
            f"a request may have {self.max_sentences} sentences (--max-sentences) and must fit in",
        )
