"""New connections: taken from the socket, and in a crowd sent away before anything is made of them.

asyncio's own server makes a task, a transport and a parser for every connection before anything can
refuse it, and a request that is refused after that has been parsed, too. With thousands of clients
that takes many seconds, for those who are refused and for those who are served.
"""

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable

from uvicorn.server import ServerState

from accord.serving.admission import Gate, is_always
from accord.serving.connection import TOO_MANY
from accord.serving.settings import (
    ACCEPT_AGAIN,
    ACCEPTED_AT_ONCE,
    LOOKED_AT_ONCE,
    MAX_OPEN,
    PEEKED,
)

_LOGGER = logging.getLogger("accord.serving")


class Acceptor:
    """Takes connections from a socket that listens, while the event loop runs.

    `state` knows the connections and the requests that there are. From MAX_OPEN connections on, a
    further one is only looked at until it sends something, for at most `seconds`; if that is a
    request for which there is no room, it is refused there and then. One connection more than
    `most` is refused whatever it wants. Of those that may stay only a few begin at a time: reading
    their requests takes long, and whoever is refused is not to wait for that.
    """

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        state: ServerState,
        gate: Gate,
        most: int,
        seconds: float,
    ) -> None:
        self._sock = sock
        self._protocol = protocol
        self._state = state
        self._gate = gate
        self._most = most
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._staying: deque[socket.socket] = deque()
        self._beginning: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on."""
        self._sock.setblocking(False)
        self._loop.add_reader(self._sock, self._accept)

    def stop(self) -> None:
        """No more are taken."""
        self._loop.remove_reader(self._sock)
        if self._again is not None:
            self._again.cancel()
        for client in list(self._silent):
            self._close(client)

    def _accept(self) -> None:
        # Few at first, so that workers share them; ever more, so that a crowd is soon known as one.
        room = max(ACCEPTED_AT_ONCE, self._count())
        for _ in range(LOOKED_AT_ONCE):
            try:
                client, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return  # none is left, or another worker has it
            except OSError as error:  # no files or no memory: those that there are come first
                _LOGGER.error("no connection can be taken: %s", error.strerror)
                self._loop.remove_reader(self._sock)
                self._again = self._loop.call_later(ACCEPT_AGAIN, self.start)
                return
            client.setblocking(False)
            count = self._count()
            if count + len(self._silent) >= self._most:
                self._refuse(client)
            elif count >= MAX_OPEN:
                self._look(client)
            else:
                self._let_in(client)
                room -= 1
                if not room:
                    return

    def _count(self) -> int:
        return len(self._state.connections) + len(self._beginning) + len(self._staying)

    def _look(self, client: socket.socket) -> None:
        """See what it wants, now or when it says so."""
        try:
            sent = client.recv(PEEKED, socket.MSG_PEEK)
        except BlockingIOError:
            if client not in self._silent:
                self._loop.add_reader(client, self._look, client)
                late = self._loop.call_later(self._seconds, self._close, client)
                self._silent[client] = late
            return
        except OSError:
            sent = b""
        requests = len(self._state.tasks) + len(self._beginning) + len(self._staying)
        if not sent:  # it has gone
            self._close(client)
        elif self._gate.has_room(requests) or is_always(sent):
            self._forget(client)
            self._let_in(client)
        else:
            self._refuse(client)

    def _refuse(self, client: socket.socket) -> None:
        self._gate.count_refused_connection()
        with contextlib.suppress(OSError):
            client.send(TOO_MANY)
            client.recv(PEEKED)  # with something unread, closing would look like a failure
        self._close(client)

    def _close(self, client: socket.socket) -> None:
        self._forget(client)
        client.close()

    def _forget(self, client: socket.socket) -> None:
        if (late := self._silent.pop(client, None)) is not None:
            late.cancel()
            self._loop.remove_reader(client)

    def _let_in(self, client: socket.socket) -> None:
        if not self._staying:
            self._loop.call_soon(self._begin)
        self._staying.append(client)

    def _begin(self) -> None:
        for _ in range(min(ACCEPTED_AT_ONCE, len(self._staying))):
            task = self._loop.create_task(self._connect(self._staying.popleft()))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)
        if self._staying:
            self._loop.call_soon(self._begin)

    async def _connect(self, client: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, client)
        except OSError:  # it has gone already
            client.close()
