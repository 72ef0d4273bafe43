"""Training speed of Transformers of the same size: Accord, JoeyNMT, eole, Hugging Face Marian.

    python benchmarks/peer_speed.py [--only NAME ...] [--seconds S] [--rounds N] [--write DIR]

6 encoder and 3 decoder layers, 512 units, 8 heads, feed-forward 2,048, 32,000 subwords in one table
for sources, targets and softmax, dropout 0.1, label smoothing 0.1, bf16 autocast over fp32 weights,
fused Adam. All get the same made-up batches of transformer_speed.py (lengths like Europarl's, about
24,000 target tokens, sorted by length, padded alike), which are on the GPU before time is taken;
Accord's are in pinned memory, from which it copies as it does in training. A round is every batch
four times; rounds of all take turns. Tokens are target tokens with the end of sentence and without
padding. Reading, batching, logging and checkpoints are not measured.

Every peer has its own model, its own loss and its own step, driven by a loop of ours:
- JoeyNMT: TrainManager._train_step; pre-norm; no clipping, which is its default. It drops weights
  of attention as well, which cannot be turned off; its loss lacks a constant.
- eole: Trainer._process_accumulated_batches; pre-norm; clips at 5, its default. PyTorch's
  memory-efficient attention only, as it sets up itself; weights of attention are not dropped.
- Hugging Face Marian: MarianMTModel (post-norm) with sdpa, the LabelSmoother of its Trainer; clips
  at 1, its Trainer's default; weights of attention are not dropped.
Faster than what they do by themselves: the autocast of JoeyNMT and eole is fp16, with a scaler of
gradients, and their Adam is not fused. "cross-entropy" is PyTorch's with label smoothing instead of
Marian's own. "compiled" is torch.compile with dynamic shapes, as eole and Hugging Face's Trainer
offer it (here with the loss); of JoeyNMT, encoder and decoder. Compiling may take
--compile-seconds.

Peers are measured where they can be imported; one that fails is told in the table. To have them:
`pip install --target peers --no-deps joeynmt==2.3.0 eole==0.6.4 transformers==5.22.2`, the packages
that their imports then ask for, and PYTHONPATH=peers. Nothing of `importlib_metadata` (JoeyNMT) and
of `pyonmttok` (eole) is used here: empty modules will do. So that JoeyNMT needs no tensorboard, its
two imports of SummaryWriter may be replaced by `SummaryWriter = object`. --tiny runs all of it on a
CPU in some minutes, to see that it works.
"""

import argparse
import functools
import importlib.metadata
import json
import signal
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from peer_models import Trainee, accord, eole, joeynmt, marian
from transformer_speed import DEVICE, ON_GPU, TINY, Sizes, clean, made_up, synchronise
from where import where

START = time.perf_counter()
WARM_UP = 2  # times every batch
ROUND = 4  # times every batch


@dataclass
class Row:
    """A row of the table: what is measured, and what is known of it."""

    name: str
    package: str
    build: Callable[[Sizes], Trainee]
    facts: dict[str, Any] = field(default_factory=dict)
    trainee: Trainee | None = None
    seconds: list[float] = field(default_factory=list)


class TooLongError(BaseException):
    """Not an Exception, which a compiler would take for a fault of the model."""


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", default=[], help="parts of names to keep")
    parser.add_argument("--seconds", type=float, default=150.0, help="start nothing after that")
    parser.add_argument("--compile-seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--write", type=Path, default=Path())
    options = parser.parse_args()
    torch.set_autocast_dtype(DEVICE.type, torch.bfloat16)  # eole takes what is set
    ours = Row("Accord", "accord", accord)
    others = [
        Row("Hugging Face Marian", "transformers", marian),
        Row("Hugging Face Marian, cross-entropy", "transformers", cross_entropy),
        Row("eole", "eole", eole),
        Row("JoeyNMT", "joeynmt", joeynmt),
    ]
    compiled = [
        Row("Hugging Face Marian, compiled", "transformers", compiling(cross_entropy)),
        Row("eole, compiled", "eole", compiling(eole)),
        Row("JoeyNMT, compiled", "joeynmt", compiling(joeynmt)),
    ]

    def wanted(row: Row) -> bool:
        return not options.only or any(part in row.name for part in options.only)

    race = Race(TINY if options.tiny else Sizes(), ours, options)
    race.start(ours)
    race.compete(list(filter(wanted, others)))
    for row in filter(wanted, compiled):
        race.compete([row], options.compile_seconds)
    print(race.report())


class Race:
    """Peers take turns with ours; on disk after every step."""

    def __init__(self, sizes: Sizes, ours: Row, options: argparse.Namespace) -> None:
        self.sizes = sizes
        self.ours = ours
        self.rows = [ours]
        self.options = options
        self.tokens = [batch.target_tokens for batch, _, _ in made_up(sizes)]
        self.where = where()

    def compete(self, peers: Sequence[Row], limit: float | None = None) -> None:
        """Rounds of ours and of peers, which may take `limit` seconds each to start."""
        self.rows += peers
        for row in peers:
            self.start(row, limit)
        running = [row for row in peers if row.trainee is not None]
        for _ in range(self.options.rounds if running else 0):
            for row in [self.ours, *running]:
                self.attempt(row, "turn", functools.partial(self._turn, row))
        for row in running:
            row.trainee = None
        clean()

    def start(self, row: Row, limit: float | None = None) -> None:
        self.attempt(row, "start", functools.partial(self._start, row, limit))

    def attempt(self, row: Row, what: str, action: Callable[[], None]) -> None:
        """Do something for a row; that it fails is a fact about it, and others go on."""
        begun = time.perf_counter()
        spent = begun - START
        if spent > self.options.seconds:
            row.facts.setdefault("skipped", f"{what}: no time left after {spent:.0f} s")
        else:
            try:
                action()
            except (Exception, TooLongError) as error:  # noqa: BLE001 (it is told in the table)
                row.trainee = None
                row.facts["error"] = f"{what}: {type(error).__name__}: {error}"[:600]
                row.facts["traceback"] = traceback.format_exc()[-2500:]
                clean()
        took = time.perf_counter() - begun
        print(f"{spent:4.0f} s  {what:5} {row.name:36} {took:5.1f} s", flush=True)
        self.write()

    def _start(self, row: Row, limit: float | None) -> None:
        """Build a model and warm it up: its memory, and what it learns on the way."""
        clean()
        begun = time.perf_counter()
        allocated, reserved = gigabytes("memory_allocated"), gigabytes("memory_reserved")
        row.facts["version"] = version(row.package)
        left = START + self.options.seconds - begun
        with within(None if limit is None else min(limit, left)):
            trainee = row.build(self.sizes)
            count = len(self.tokens)
            losses = [trainee.update(number % count) for number in range(WARM_UP * count + 1)]
            synchronise()
        row.facts |= {
            "parameters": sum(p.numel() for p in trainee.model.parameters() if p.requires_grad),
            "first_loss": float(losses[0]),
            "last_loss": float(losses[-1]),
            "peak_gb": gigabytes("max_memory_allocated") - allocated,
            "reserved_gb": gigabytes("memory_reserved") - reserved,
            "start_s": time.perf_counter() - begun,
        }
        row.trainee = trainee

    def _turn(self, row: Row) -> None:
        """One round."""
        if row.trainee is None:
            return
        numbers = [number for _ in range(ROUND) for number in range(len(self.tokens))]
        synchronise()
        begun = time.perf_counter()
        for number in numbers:
            row.trainee.update(number)
        synchronise()
        row.seconds.append(time.perf_counter() - begun)
        tokens = ROUND * sum(self.tokens)
        row.facts["rounds_tokens_per_s"] = [tokens / each for each in row.seconds]
        row.facts["target_tokens_per_s"] = tokens / statistics.median(row.seconds)
        row.facts["ms"] = 1000 * statistics.median(row.seconds) / len(numbers)

    def write(self) -> None:
        rows = [{"name": row.name, **row.facts} for row in self.rows]
        facts = {"where": self.where, "tokens": self.tokens, "rows": rows}
        path = self.options.write / "peer_speed.json"
        path.write_text(json.dumps(facts, indent=1))

    def report(self) -> str:
        spent = time.perf_counter() - START
        mean = sum(self.tokens) / len(self.tokens)
        lines = [
            f"\n{self.where}, {mean:,.0f} target tokens in a batch, {spent:.0f} s",
            "| | version | target tokens/s | lowest to highest round | ms | Accord over it "
            "| peak GB | reserved GB | M parameters |",
            "|--|--|--:|--|--:|--:|--:|--:|--:|",
        ]
        ours = self.ours.facts.get("target_tokens_per_s", float("nan"))
        for row in self.rows:
            facts = row.facts
            if "ms" not in facts:
                lines.append(f"| {row.name} | {facts.get('error', facts.get('skipped'))} |")
                continue
            speed, rounds = facts["target_tokens_per_s"], facts["rounds_tokens_per_s"]
            lines.append(
                f"| {row.name} | {facts['version']} | {speed:,.0f} "
                f"| {min(rounds):,.0f} to {max(rounds):,.0f} | {facts['ms']:.1f} "
                f"| {ours / speed:.2f} | {facts['peak_gb']:.2f} | {facts['reserved_gb']:.2f} "
                f"| {facts['parameters'] / 1e6:.1f} |"
            )
        return "\n".join(lines)


def gigabytes(what: str) -> float:
    return float(getattr(torch.cuda, what)()) / 1e9 if ON_GPU else 0.0


def version(package: str) -> str:
    return "" if package == "accord" else importlib.metadata.version(package)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Stop what takes longer."""

    def stop(*_: object) -> None:
        raise TooLongError(f"compiling took more than {seconds:.0f} s")

    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)  # again, where the first was swallowed
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def compiling(build: Callable[..., Trainee]) -> Callable[[Sizes], Trainee]:
    return functools.partial(build, compiled=True)


cross_entropy = functools.partial(marian, own_loss=False)


if __name__ == "__main__":
    main()
