"""`accord serve` beside two servers of a few lines around the same model, in one run.

    python benchmarks/serve_peers.py RUN_OR_EXPORT --from de --to fr [--clients 1 16 64]

`plain` is FastAPI with one lock around the translator, `batched` one with a queue from which a
thread takes whatever waits, up to 32 sentences, after 5 ms. Neither has limits, deadlines, metrics,
a log, request ids, sentence splitting or orderly ends. All three translate by `accord.Translator`:
what differs is the server. They take turns, --rounds times, and each load is measured --seconds
long by clients that ask for one sentence after another (those of serve_crowd.py); the table has the
median of the rounds. Server CPU is that of all its processes.
"""

import argparse
import asyncio
import contextlib
import itertools
import queue
import shlex
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import serve_crowd
from where import where

_THIS = Path(__file__)


def plain(path: Path) -> Any:
    """No batches: whoever has the lock translates."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    from accord import Translator

    translator, lock, app = Translator(path), threading.Lock(), FastAPI()

    class Asked(BaseModel):
        q: str
        source: str
        target: str

    @app.post("/translate")
    def translate(asked: Asked) -> dict[str, str]:
        with lock:
            return {"translatedText": translator.translate([asked.q], asked.target)[0].text}

    return app


def batched(path: Path) -> Any:
    """Batches of what came in within 5 ms."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    from accord import Translator

    translator, app = Translator(path), FastAPI()
    waiting: queue.Queue[tuple[str, str, Callable[[str], object]]] = queue.Queue()

    class Asked(BaseModel):
        q: str
        source: str
        target: str

    def work() -> None:
        while True:
            batch = [waiting.get()]
            time.sleep(0.005)
            while len(batch) < 32 and not waiting.empty():
                batch.append(waiting.get())
            found = translator.translate([text for text, _, _ in batch], batch[0][1])
            for (_, _, answer), translation in zip(batch, found, strict=True):
                answer(translation.text)

    @app.post("/translate")
    async def translate(asked: Asked) -> dict[str, str]:
        loop, future = asyncio.get_running_loop(), asyncio.Future[str]()
        answer = lambda text: loop.call_soon_threadsafe(future.set_result, text)  # noqa: E731
        waiting.put((asked.q, asked.target, answer))
        return {"translatedText": await future}

    threading.Thread(target=work, daemon=True).start()
    return app


def serve_here(kind: str, path: Path) -> None:
    import socket

    import uvicorn

    app = {"plain": plain, "batched": batched}[kind](path)
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, http="h11", loop="asyncio")
    uvicorn.Server(config).run([sock])


@contextlib.contextmanager
def started(command: list[str]) -> Iterator[tuple[int, int]]:
    """A server; yields its process id and port."""
    null = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=null, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if "http://" not in line:
                sys.exit(f"no server came up: {shlex.join(command)}")
            yield process.pid, int(line.rsplit(":", 1)[1])
        finally:
            process.terminate()


def cpu(pid: int) -> float:
    """Seconds of processor that a process and its children have had."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    times = [Path(f"/proc/{x}/stat").read_text().rsplit(")", 1)[1].split()[11:13] for x in pids]
    return sum(int(ticks) for pair in times for ticks in pair) / 100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="RUN_OR_EXPORT")
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--to", dest="target", required=True)
    parser.add_argument("--text", default="25. August 1922")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", choices=["plain", "batched"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        serve_here(options.peer, options.model)
        return
    options.patience = 10.0
    model = str(options.model)
    peer = [sys.executable, str(_THIS), model, "--from", "x", "--to", "y", "--peer"]
    servers = {
        "accord serve": [sys.executable, "-m", "accord", "serve", model, "--port", "0"],
        "batched": [*peer, "batched"],
        "plain": [*peer, "plain"],
    }
    rows: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    for _, (name, command) in itertools.product(range(options.rounds), servers.items()):
        with started(command) as (pid, port):
            for clients in options.clients:
                rows.setdefault((name, clients), []).append(measure(pid, port, clients, options))
    print(report(rows, options))


def measure(pid: int, port: int, clients: int, options: argparse.Namespace) -> tuple[float, ...]:
    """Requests per second, median and 99th percentile of the time in ms, CPU ms per request."""
    crowd = argparse.Namespace(**{**vars(options), "clients": clients, "seconds": 1.0})
    serve_crowd.run(port, crowd)  # to warm up
    crowd.seconds, before = options.seconds, cpu(pid)
    found = serve_crowd.run(port, crowd).seconds["200"]
    cuts = statistics.quantiles(found, n=100, method="inclusive")
    used = 1000 * (cpu(pid) - before) / len(found)
    return len(found) / options.seconds, 1000 * cuts[49], 1000 * cuts[98], used


def report(
    rows: dict[tuple[str, int], list[tuple[float, ...]]], options: argparse.Namespace
) -> str:
    lines = [
        f"`python benchmarks/serve_peers.py {shlex.join(sys.argv[1:])}`",
        "",
        f"{where()}; median of {options.rounds} rounds (least to most requests/s).",
        "",
        "| server | clients | requests/s | p50 ms | p99 ms | server CPU ms per request |",
        "|--|--:|--:|--:|--:|--:|",
    ]
    for (name, clients), found in sorted(rows.items(), key=lambda item: item[0][1]):
        rate, middle, high, used = (
            statistics.median(column) for column in zip(*found, strict=True)
        )
        spread = f"{min(x[0] for x in found):.0f} to {max(x[0] for x in found):.0f}"
        lines.append(
            f"| {name} | {clients} | {rate:.0f} ({spread}) | {middle:.1f} | {high:.1f} "
            f"| {used:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
