"""How much memory the plan of an epoch takes in a process, and how long, by number of examples.

    python benchmarks/plan_memory.py [1000000 10000000 100000000 5000000000]

One corpus both ways, of made-up lengths (1 to 60 subwords); no text is read. For each size a
process opens the stream, plans the first, the middle and the last window or, where there is but
one, two epochs, and makes some batches of each.
Memory is the highest anonymous memory (RssAnon, sampled every 2 ms) above what the process had
before. Offsets are computed, not stored: a store's are mapped from disk, and are no memory of the
process's own. Of what is drawn, every line must lie in the corpus and have the length that it has.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from accord.data.batches import BatchStream, Position
from accord.data.epoch_plan import Int64s
from accord.data.store import ParallelCorpus, Sentences
from where import where

SIZES = (10**6, 10**7, 10**8, 5 * 10**9)
PERIOD = 10_000


class Offsets:
    """Where lines begin whose lengths repeat after some thousands, computed when asked for."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.lengths = np.random.default_rng(0).integers(1, 61, PERIOD)
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)])

    def __len__(self) -> int:
        return self.lines + 1

    def __getitem__(self, key: Any) -> Int64s:
        if isinstance(key, slice):
            key = np.arange(*key.indices(len(self)))
        times, rest = np.divmod(key, PERIOD)
        found: Int64s = times * self._starts[-1] + self._starts[rest]
        return found


class Peak:
    """The most anonymous memory of this process, in bytes above what it has now."""

    def __init__(self) -> None:
        self._before = self._highest = _anonymous()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._highest = max(self._highest, _anonymous())
            time.sleep(0.002)

    def __call__(self) -> int:
        return max(self._highest, _anonymous()) - self._before


def _anonymous() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def measure(examples: int) -> str:
    """A row of the table."""
    offsets = Offsets(examples // 2)
    side = Sentences(np.broadcast_to(np.uint16(9), (1 << 50,)), offsets)  # type: ignore[arg-type]
    corpus = ParallelCorpus(("en", "de"), (side, side), (("en", "de"), ("de", "en")))
    peak, began = Peak(), time.process_time()
    stream = BatchStream([corpus], ("en", "de"), {"en": 2, "de": 3}, batch_tokens=25_000, seed=1)
    opened, top = time.process_time() - began, 0
    seconds = []
    for position in _places(stream):
        began = time.process_time()
        stream.seek(position)
        seconds.append(time.process_time() - began)
        for _, (_, batch) in zip(range(20), stream, strict=False):
            true_B = offsets.lengths[batch.line_B % PERIOD] + 1
            if not (batch.target_lengths_B == true_B).all():
                raise SystemExit(f"a line of the wrong length in {position}")
            if batch.line_B.min() < 0 or batch.line_B.max() >= examples // 2:
                raise SystemExit(f"a line that is not there in {position}")
            top = max(top, int(batch.line_B.max()))
    return (
        f"| {examples:,} | {stream.windows} | {peak() / 1e6:,.0f} | {opened:.1f} | "
        f"{max(seconds):.1f} | {stream.estimated_batches():,} | {top:,} |"
    )


def _places(stream: BatchStream) -> Iterator[Position]:
    if stream.windows == 1:
        return (Position(epoch) for epoch in range(2))
    return (Position(0, 0, window) for window in (0, stream.windows // 2, stream.windows - 1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(measure(int(sys.argv[2])), flush=True)
    else:
        print(where())
        print(
            "| examples | windows | peak MB | CPU s to open | CPU s a plan | updates | last line |"
        )
        print("|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        for size in [int(text) for text in sys.argv[1:]] or SIZES:
            subprocess.run([sys.executable, __file__, "--one", str(size)], check=True)
