"""Speed of `accord serve` on one machine: requests a second and latency, by number of clients.

    python benchmarks/serve.py RUN_OR_EXPORT... [--clients 1 16 128] [--seconds 10] [--write DIR]

Each model is served once with batching and once without (--batch-size 1 --batch-delay 0), unless
--batching asks for one of them. Clients are connections that send one sentence after the other,
each as soon as the last is answered, from this process: it shares the cores with the server.
Latency is from the first byte sent to the last one received. What is answered in the first seconds
of a measurement is not counted: let --warm-up be longer than the slowest answer takes.

Sentences are the test sentences of the first RUN, in a zero-shot direction where there is one, or
the lines of --text. Every answer is compared with that of the first measurement: the last column
says how many are the same. Quality itself is what `accord evaluate` measures.
"""

import argparse
import asyncio
import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.machine import cores
from accord.run_directory import RunDirectory
from where import where

_NO_BATCHING = ["--batch-size", "1", "--batch-delay", "0"]


@dataclass
class Tally:
    """What clients measure, and what they were told."""

    begin: float
    end: float
    seconds: list[float] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    refused: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+", metavar="RUN_OR_EXPORT")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--batching", choices=["on", "off"], nargs="+", default=["on", "off"])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=2.0)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--from", dest="source")
    parser.add_argument("--to", dest="target")
    parser.add_argument("--text", type=Path, help="sentences, one a line")
    parser.add_argument("--serve", default="", help="further options of accord serve")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    direction, texts = sentences(options)
    rows: list[dict[str, Any]] = []
    known: dict[str, str] = {}
    for model, choice in itertools.product(options.models, options.batching):
        batching = choice == "on"
        with served(model, batching, options) as port:
            for clients in options.clients:
                rows.append(measure(port, direction, texts, clients, options, known))
                rows[-1] |= {"model": model.name, "batching": batching}
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(report(rows, direction, options))
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        (options.write / "serve.json").write_text(json.dumps(rows, indent=1))
        (options.write / "serve.md").write_text(report(rows, direction, options))


def sentences(options: argparse.Namespace) -> tuple[tuple[str, str], list[str]]:
    """The direction, and what to translate in it."""
    if options.text and options.source and options.target:
        lines = options.text.read_text(encoding="utf-8").splitlines()
        return (options.source, options.target), [line for line in lines if line.strip()]
    runs = [path for path in options.models if (path / "experiment.yaml").is_file()]
    if not runs:
        sys.exit("exported models only: give --text, --from and --to")
    run = RunDirectory(runs[0])
    graph = run.experiment().graph
    source, target = (graph.zero_shot or graph.supervised_directions)[0]
    direction = (options.source or source, options.target or target)
    return direction, run.held_out.pair("test", *direction)[0]


@contextmanager
def served(model: Path, batching: bool, options: argparse.Namespace) -> Iterator[int]:
    """A server for the model; yields its port."""
    command = [sys.executable, "-m", "accord", "serve", str(model), "--port", "0"]
    command += ["--beam", str(options.beam), "--timeout", "300"]
    command += [*shlex.split(options.serve), *(() if batching else _NO_BATCHING)]
    log = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if "http://" not in line:
                sys.exit(f"no server came up: {shlex.join(command)}")
            yield int(line.rsplit(":", 1)[1])
        finally:
            process.terminate()


def measure(
    port: int,
    direction: tuple[str, str],
    texts: list[str],
    clients: int,
    options: argparse.Namespace,
    known: dict[str, str],
) -> dict[str, Any]:
    """Figures of so many clients; `known` are the answers that there were before."""
    before = figures(port)
    begin = time.monotonic() + options.warm_up
    tally = Tally(begin, begin + options.seconds)
    asyncio.run(crowd(port, direction, texts, clients, tally))
    batches = {name: value - before[name] for name, value in figures(port).items()}
    same = [known.setdefault(text, answer) == answer for text, answer in tally.answers.items()]
    if len(tally.seconds) < 2:
        sys.exit(f"{len(tally.seconds)} answers in {options.seconds:g} s: raise --seconds")
    cuts = statistics.quantiles(tally.seconds, n=100, method="inclusive")
    return {
        "clients": clients,
        "requests": len(tally.seconds),
        "requests_per_s": len(tally.seconds) / options.seconds,
        "p50_ms": 1000 * cuts[49],
        "p95_ms": 1000 * cuts[94],
        "p99_ms": 1000 * cuts[98],
        "sentences_per_batch": batches["sum"] / max(1, batches["count"]),
        "refused": tally.refused,
        "same": sum(same) / len(same),
    }


def figures(port: int) -> dict[str, float]:
    """How many batches the server has computed, and how many sentences in them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    start = "accord_batch_sentences_"
    found = (line.removeprefix(start).split() for line in lines if line.startswith(start))
    return {name: float(value) for name, value in found if name in ("sum", "count")}


async def crowd(
    port: int, direction: tuple[str, str], texts: list[str], clients: int, tally: Tally
) -> None:
    turns = itertools.cycle(texts)
    await asyncio.gather(*(client(port, direction, turns, tally) for _ in range(clients)))


async def client(port: int, direction: tuple[str, str], turns: Iterator[str], tally: Tally) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (begun := time.monotonic()) < tally.end:
        text = next(turns)
        asked = {"q": text, "source": direction[0], "target": direction[1]}
        status, answer = await exchange(reader, writer, json.dumps(asked).encode())
        done = time.monotonic()
        if status != 200:
            tally.refused += 1
        elif tally.begin <= done <= tally.end:
            tally.seconds.append(done - begun)
            tally.answers[text] = answer["translatedText"]
    writer.close()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
) -> tuple[int, Any]:
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
    [length] = [line for line in lines if line.startswith("content-length:")]
    answer = json.loads(await reader.readexactly(int(length.split(":")[1])))
    return int(lines[0].split()[1]), answer


def report(
    rows: list[dict[str, Any]], direction: tuple[str, str], options: argparse.Namespace
) -> str:
    load = os.getloadavg()[0]
    lines = [
        f"`python benchmarks/serve.py {shlex.join(sys.argv[1:])}`",
        "",
        f"{where()}; {cores()} cores, which server and clients share; load at the end {load:.1f}.",
        f"{'-'.join(direction)}, one sentence a request, beam {options.beam}, "
        f"{options.seconds:g} s a row.",
        "",
        "| model | batching | clients | requests/s | p50 ms | p95 ms | p99 ms | sentences a batch "
        "| refused | same answers |",
        "|--|--|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row['model']} | {'on' if row['batching'] else 'off'} | {row['clients']} "
        f"| {row['requests_per_s']:.1f} | {row['p50_ms']:.0f} | {row['p95_ms']:.0f} "
        f"| {row['p99_ms']:.0f} | {row['sentences_per_batch']:.1f} | {row['refused']} "
        f"| {row['same']:.1%} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
