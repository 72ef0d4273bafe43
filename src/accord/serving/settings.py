"""How a server is to run: where it listens, what it accepts, how it batches.

All limits of the server are here and nowhere else in this folder: to change one, change it here.
Those that `accord serve` has options for are fields of `ServeSettings`, each with its default and
its help; those that hardly anybody should need to change are the constants below them.
"""

import re
from dataclasses import dataclass, field

from accord.settings_fields import check_settings, flag, require, setting

MAX_BEAM = 10
"""The largest beam a client may ask for: time and memory grow with it."""
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
    max_file: int = setting(10_485_760, "Bytes of a file to be translated; 0: none are.", least=0)
    max_file_characters: int = setting(100_000, "Characters to be translated in a file.", least=1)
    file_timeout: float = setting(
        600.0, "Seconds that the translation of a file may take.", above=0
    )
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
    hide_examples: bool = setting(False, "No dev sentences on the page; else a few, to try.")
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """None: everybody may translate."""
    cors: tuple[str, ...] = ()
    """Origins of web pages that may read the answers."""
    file_folder: str = ""
    """Where translated files wait to be fetched, for all workers; else each makes a folder."""

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


# --- Limits that no option sets.


# What clients may send.
MAX_CODE = 32
"""Characters of a language code."""
MAX_KEY = 1000
"""Characters of an API key."""
MAX_FIELDS = 1000
"""Fields of a form: reading each takes time."""

# Files.
MAX_FILES = 4
"""Files that are read and translated at the same time: each may take some hundred MB."""
MAX_TAGS = 200_000
"""Tags in a part of a file: to read each takes time and memory."""
MAX_MARKUP = 10
"""Bytes of a text file for each character that may be translated in it."""
FILE_KEPT = 1800.0
"""Seconds that a translated file waits to be fetched."""
FILE_SWEEP = 60.0
"""Seconds between two looks for files that have waited too long."""
MAX_KEPT = 256_000_000
"""Bytes of translated files that wait; beyond that the oldest go."""
FORM_EXTRA = 65_536
"""Bytes of a form beside the file in it."""
FILE_PATIENCE = 0.1
"""Seconds after which a file that finds the queue full tries again."""

# Requests and connections at the same time.
MAX_OPEN = 1000
"""Requests at the same time, being read ones included: each may hold a body in memory."""
ACCEPTED_AT_ONCE = 32
"""Connections taken from the socket in one go; more where there are more already."""
LOOKED_AT_ONCE = 1000
"""Connections looked at in one go, where most of them are refused."""
BACKLOG = 65_535
"""Connections that the system may hold ready; it has a limit of its own (net.core.somaxconn)."""
PEEKED = 65_536
"""Bytes that are looked at to see what a connection wants before anything is made of it."""
WANTED_FILES = 8192
"""Open files that the process asks for. Every connection needs one: the most connections are
these less OTHER_FILES."""
OTHER_FILES = 256
"""Of these, how many are not for connections."""

# Seconds.
LINGER = 1.0
"""Reading on after a body that is too large, so that the client sees the answer."""
ANSWER_FIRST = 2.0
"""By so much the application's own deadline, which answers, comes before the connection's."""
KEEP_ALIVE = 5
"""For the next request on a connection, and for connections to end at shutdown."""
RETRY_SOON, RETRY_BUSY, RETRY_AT_MOST = 5, 1, 60
"""What clients are told to wait: at shutdown, when too many are there, and at most."""
ACCEPT_AGAIN = 1.0
"""After so long connections are taken again, when there were no files or no memory for one."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Before a worker that died is replaced; twice as long each time it dies again."""
SIGNAL_WITHIN = 0.25
"""After so long the supervisor notices a signal."""
STOP_GRACE = 10.0
"""For workers to end, beyond what their requests may take."""

# The log.
LOG_EVERY = 0.02
"""Seconds in which lines gather to be written together."""
MAX_LOG_LINES = 10_000
"""Lines that wait to be written; further ones are dropped and counted."""
