"""Limits of the server that no option sets; those of `accord serve` are in settings.py.

All numbers are here and nowhere else in this folder: to change one, change it here.
"""

# --- What clients may ask.
MAX_BEAM = 10
"""The largest beam a client may ask for: time and memory grow with it."""
MAX_CODE = 32
"""Characters of a language code."""
MAX_KEY = 1000
"""Characters of an API key."""
MAX_FIELDS = 1000
"""Fields of a form: reading each takes time."""

# --- Requests and connections at the same time.
MAX_OPEN = 1000
"""Requests at the same time, being read ones included: each may hold a body in memory."""
ACCEPTED_AT_ONCE = 32
"""Connections taken from the socket in one go, before anybody looks at them."""
BACKLOG = 2048
"""Connections that the system may hold ready."""
WANTED_FILES = 8192
"""Open files that the process asks for; every connection needs one."""
# One that is sent away keeps its file for a few rounds of the event loop.
OTHER_FILES = 64 + 6 * ACCEPTED_AT_ONCE
"""Of these, how many are not for connections."""

# --- Seconds.
LINGER = 1.0
"""Reading on after a body that is too large, so that the client sees the answer."""
ANSWER_FIRST = 2.0
"""By so much the application's own deadline, which answers, comes before the connection's."""
KEEP_ALIVE = 5
"""For the next request on a connection, and for connections to end at shutdown."""
RETRY_SOON, RETRY_BUSY, RETRY_AT_MOST = 5, 1, 60
"""What clients are told to wait: at shutdown, when too many are there, and at most."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Before a worker that died is replaced; twice as long each time it dies again."""
SIGNAL_WITHIN = 0.25
"""After so long the supervisor notices a signal."""
STOP_GRACE = 10.0
"""For workers to end, beyond what their requests may take."""

# --- The log.
MAX_LOG_LINES = 10_000
"""Lines that wait to be written; further ones are dropped and counted."""
