"""How soon `accord serve` answers and refuses when far too many clients come at once.

    python benchmarks/serve_crowd.py RUN_OR_EXPORT --from de --to fr [--clients 4096] [--seconds 20]

Every client connects, asks for one sentence and, once answered, for the next on the same
connection. Where it is refused it waits for as long as it was told (Retry-After) and connects anew.
All of them begin in the same moment. Times are from the first packet to the whole answer, the
connecting included where there was any; a connection that is not there after --patience seconds
has failed. The clients are sockets in one loop without any library; they take little, but share the
cores with the server. `ulimit -n` must be above the number of clients.
"""

import argparse
import errno
import json
import select
import shlex
import socket
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from serve import figures, served
from where import where


@dataclass(eq=False)
class Client:
    """One of the crowd; `sock` is None while it waits until it may come again."""

    text: bytes
    sock: socket.socket | None = None
    begun: float = 0.0
    connected: bool = False
    received: bytes = b""


@dataclass
class Crowd:
    """All clients, and what became of their requests: seconds by outcome."""

    port: int
    poll: select.epoll = field(default_factory=select.epoll)
    by_file: dict[int, Client] = field(default_factory=dict)
    resting: list[tuple[float, Client]] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def connect(self, client: Client) -> None:
        client.sock = socket.socket()
        client.sock.setblocking(False)
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.begun, client.connected, client.received = time.monotonic(), False, b""
        if client.sock.connect_ex(("127.0.0.1", self.port)) not in (0, errno.EINPROGRESS):
            self.end(client, "connection failed", rest=1.0)
            return
        self.by_file[client.sock.fileno()] = client
        self.poll.register(client.sock, select.EPOLLOUT | select.EPOLLIN)

    def ready(self, client: Client) -> None:
        """Something happened on the client's socket."""
        assert client.sock is not None
        try:
            if not client.connected:
                if error := client.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(error, "connection failed")
                client.connected = True
                self.seconds["connected"].append(time.monotonic() - client.begun)
                self.poll.modify(client.sock, select.EPOLLIN)
                client.sock.send(client.text)
                return
            piece = client.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "error")
            self.end(client, f"failed: {name}", rest=1.0)
            return
        client.received += piece
        head, found, body = client.received.partition(b"\r\n\r\n")
        headers = dict(
            line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line
        )
        if found and len(body) >= int(headers.get(b"content-length", 0)):
            self.answered(client, int(head.split()[1]), headers)
        elif not piece:
            self.end(client, "failed: closed without an answer", rest=1.0)

    def answered(self, client: Client, status: int, headers: dict[bytes, bytes]) -> None:
        if status != 200 or headers.get(b"connection") == b"close":
            rest = float(headers.get(b"retry-after", 1)) if status != 200 else 0.0
            self.end(client, str(status), rest)
            return
        self.seconds["200"].append(time.monotonic() - client.begun)
        assert client.sock is not None
        client.begun, client.received = time.monotonic(), b""
        client.sock.send(client.text)

    def end(self, client: Client, outcome: str, rest: float) -> None:
        now = time.monotonic()
        self.seconds[outcome].append(now - client.begun)
        if client.sock is not None:
            self.by_file.pop(client.sock.fileno(), None)
            client.sock.close()
            client.sock = None
        self.resting.append((now + rest, client))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="RUN_OR_EXPORT")
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--to", dest="target", required=True)
    parser.add_argument("--text", default="25. August 1922")
    parser.add_argument("--clients", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--patience", type=float, default=10.0)
    parser.add_argument("--serve", default="", help="further options of accord serve")
    options = parser.parse_args()
    options.beam = 4
    with served(options.model, True, options) as port:
        figures(port)  # it answers
        crowd = run(port, options)
    print(report(crowd, options))


def run(port: int, options: argparse.Namespace) -> Crowd:
    body = json.dumps({"q": options.text, "source": options.source, "target": options.target})
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    sent = f"{head}Content-Length: {len(body.encode())}\r\n\r\n{body}".encode()
    crowd = Crowd(port)
    begin = time.monotonic()
    for _ in range(options.clients):
        crowd.connect(Client(sent))
    while (now := time.monotonic()) < begin + options.seconds:
        for number, _ in crowd.poll.poll(0.05):
            crowd.ready(crowd.by_file[number])
        due = [client for when, client in crowd.resting if when <= now]
        crowd.resting = [item for item in crowd.resting if item[0] > now]
        for client in due:
            crowd.connect(client)
        late = now - options.patience
        for client in [x for x in crowd.by_file.values() if not x.connected and x.begun < late]:
            crowd.end(client, "connecting timed out", rest=1.0)
    for client in crowd.by_file.values():  # what has no answer yet has waited for this long
        crowd.seconds["without an answer at the end"].append(time.monotonic() - client.begun)
    return crowd


def report(crowd: Crowd, options: argparse.Namespace) -> str:
    lines = [
        f"`python benchmarks/serve_crowd.py {shlex.join(sys.argv[1:])}`",
        "",
        f"{where()}; {options.clients} clients, {options.seconds:g} s.",
        "",
        "| outcome | requests | p50 ms | p99 ms | longest ms |",
        "|--|--:|--:|--:|--:|",
    ]
    for outcome, seconds in sorted(crowd.seconds.items()):
        cuts = statistics.quantiles([*seconds, seconds[-1]], n=100, method="inclusive")
        figures = " | ".join(f"{1000 * x:.0f}" for x in (cuts[49], cuts[98], max(seconds)))
        lines.append(f"| {outcome} | {len(seconds)} | {figures} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
