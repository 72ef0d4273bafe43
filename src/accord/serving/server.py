"""One process that serves: from a socket and a way to open the model to the last answer."""

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

import uvicorn

from accord.errors import AccordError
from accord.serving.accepting import Acceptor
from accord.serving.access_log import Log, LogHandler
from accord.serving.admission import Gate
from accord.serving.app import create_app
from accord.serving.connection import connection_class, most_connections
from accord.serving.metrics_text import Meter
from accord.serving.opened_model import Opened
from accord.serving.settings import BACKLOG, KEEP_ALIVE, ServeSettings

Open = Callable[[], Opened]
_LOGGERS = ("uvicorn.error", "accord.serving", "asyncio")


def listening_socket(settings: ServeSettings) -> socket.socket:
    """A socket bound to the address; connections are refused until somebody serves it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once; else each takes 40 ms more.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        raise AccordError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}",
            fix="choose another --port (0 for any that is free) or --host",
        ) from None
    return sock


def address(sock: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """Stops in two steps: at first all that came in is answered, and only then it ends.

    While it drains it goes on listening, so that new requests are told to come back later rather
    than find nobody. A second signal ends at once. A worker hears of one signal more than once
    (from the terminal or the service manager, and from its supervisor): there, none ends at once.
    """

    def __init__(
        self, config: uvicorn.Config, gate: Gate, log: Log, settings: ServeSettings
    ) -> None:
        super().__init__(config)
        self._gate = gate
        self._log = log
        self._seconds = settings.read_timeout
        self._connection = connection_class(self._seconds)
        self._most = most_connections()
        self._acceptors: list[Acceptor] = []
        self._unsignalled = threading.Lock()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        # In one step: a worker's second signal may come while it is still handling the first.
        first = self._unsignalled.acquire(blocking=False)
        if first and not self._gate.draining:
            self.drain(signal.Signals(sig).name)
        elif _alone():
            os._exit(128 + sig)  # a batch that is being computed could not be interrupted otherwise

    def drain(self, reason: str) -> None:
        """Take nothing new, and end when all is answered."""
        self._gate.draining = True
        self._log.write({"event": "draining", "reason": reason, "open": self._gate.open})

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take connections, as uvicorn would not (see `Acceptor`)."""
        await super().startup([])
        state = self.server_state
        connection = partial(self._connection, self.config, state, self.lifespan.state)
        for sock in sockets or []:
            sock.listen(BACKLOG)
            acceptor = Acceptor(sock, connection, state, self._gate, self._most, self._seconds)
            acceptor.start()
            self._acceptors.append(acceptor)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no connections any more, and end those that there are."""
        for acceptor in self._acceptors:
            acceptor.stop()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Whether to end now; asked ten times a second."""
        if self._gate.draining and not self._gate.open:
            self.should_exit = True
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals here, also the second one, and forget them afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGTERM, *((signal.SIGINT,) if _alone() else ()))
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _alone() -> bool:
    """Whether this process has no supervisor."""
    return multiprocessing.parent_process() is None


def make_server(opened: Opened, settings: ServeSettings, meter: Meter, log: Log) -> Server:
    """A server for an opened model."""
    gate = Gate(meter)
    config = uvicorn.Config(
        create_app(opened, settings, meter=meter, log=log, gate=gate),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=KEEP_ALIVE,
    )
    return Server(config, gate, log, settings)


def serve(
    settings: ServeSettings,
    open_model: Open,
    sock: socket.socket,
    *,
    meter: Meter | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Open the model and serve until a signal comes; `ready` is called in between."""
    meter = meter or Meter()
    with _held(open_model()) as opened, _logged(meter) as log:
        server = make_server(opened, settings, meter, log)
        _watch(server, opened)
        log.write({"event": "serving", "address": address(sock), "pid": os.getpid()})
        sock.listen(BACKLOG)
        with server.capture_signals():  # whoever reads that it is ready may at once end it
            ready()
            server.run([sock])
        log.write({"event": "ended", "pid": os.getpid()})


@contextlib.contextmanager
def _held(opened: Opened) -> Iterator[Opened]:
    """A model for as long as it serves; that it ended by itself is an error."""
    try:
        yield opened
    finally:
        code = opened.held.close() if opened.held else None
    if code is not None:
        raise AccordError(
            f"the model's process ended with code {code}",
            fix="start the server again; -9 often means that memory ran out",
        )


def _watch(server: Server, opened: Opened) -> None:
    """A server whose supervisor or whose model was killed finishes what it can, and ends."""
    parent = multiprocessing.parent_process()
    ends = {
        "the supervisor is gone": parent.join if parent else None,
        "the model is gone": opened.held.wait if opened.held else None,
    }

    def watch(reason: str, wait: Callable[[], object]) -> None:
        wait()
        server.drain(reason)

    for reason, wait in ends.items():
        if wait is not None:
            name = f"accord-watch {reason}"
            threading.Thread(target=watch, args=(reason, wait), name=name, daemon=True).start()


@contextlib.contextmanager
def _logged(meter: Meter) -> Iterator[Log]:
    log = Log(meter)
    handler = LogHandler(log)
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).propagate = False
    try:
        yield log
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(handler)
        log.close()
