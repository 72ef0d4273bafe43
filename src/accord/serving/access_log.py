"""The server's log: what happens, as JSON lines on stderr.

A stalled reader of stderr must not stall the server.
"""

import datetime
import json
import logging
import queue
import select
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, TextIO

from accord.serving.metrics_text import Meter
from accord.serving.settings import LOG_EVERY, MAX_LOG_LINES


class Log:
    """Lines are written by a thread; when too many wait, new ones are dropped and counted."""

    def __init__(self, meter: Meter, out: TextIO | None = None) -> None:
        self._meter = meter
        self._out = out or sys.stderr
        # Unlike Queue's, its put may be interrupted by a signal handler that logs as well.
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="accord-log", daemon=True)
        self._thread.start()

    def write(self, facts: Mapping[str, Any]) -> None:
        """Log one event; the time is put in front."""
        if self._lines.qsize() < MAX_LOG_LINES:
            self._lines.put(line(facts))
        else:
            self._meter.add("lost_log_lines_total")

    def close(self, seconds: float = 2.0) -> None:
        """Write what waits, but do not wait for ever."""
        self._lines.put(None)
        self._thread.join(seconds)

    def _write(self) -> None:
        following: str | None = ""
        while following is not None and (first := following or self._lines.get()) is not None:
            if self._lines.empty():  # some more may gather: waking this thread halts the event loop
                time.sleep(LOG_EVERY)
            text, following = self._gather(first)
            try:
                self._out.write(text)
                self._out.flush()
            except (OSError, ValueError):  # nobody reads any more; serving is what counts
                self._meter.add("lost_log_lines_total", text.count("\n"))

    def _gather(self, text: str) -> tuple[str, str | None]:
        """As many lines as are surely written in one piece, for workers share stderr.

        With them comes the next one where it was taken already, or None at the end of all.
        """
        while not self._lines.empty():
            following = self._lines.get()
            if following is None or len(text) + len(following) > select.PIPE_BUF:
                return text, following
            text += following
        return text, ""


def line(facts: Mapping[str, Any]) -> str:
    """One event as a line of JSON."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, **facts}, ensure_ascii=True) + "\n"


class LogHandler(logging.Handler):
    """Python's logging (uvicorn's complaints, failed translations) into the same log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record, with its traceback if it has one."""
        facts: dict[str, Any] = {"level": record.levelname.lower(), "event": record.getMessage()}
        if record.exc_info:
            facts["traceback"] = logging.Formatter().formatException(record.exc_info)
        self._log.write(facts)
