"""How fast and how large `accord prepare` is on real Europarl, at several sizes.

    python benchmarks/prepare.py [--data DIR] [--sizes 150000 300000 600000] [--workers N]
                                 [--write FILE]

The three corpora en-de, en-es and en-fr are made from one multi-parallel text, so their English
sides overlap completely: the hardest case for overlap removal. Memory is the sum over all processes
(proportional set size), sampled twice a second.
"""

import argparse
import datetime
import json
import lzma
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from accord.machine import commit, cores

LANGUAGES = ("en", "de", "es", "fr")
ROOT = Path(__file__).parents[1]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--data", type=Path, default=ROOT / "../shared/data/europarl")
    arguments.add_argument("--sizes", type=int, nargs="+", default=[150_000, 300_000, 600_000])
    arguments.add_argument("--workers", type=int, default=cores())
    arguments.add_argument("--write", type=Path, help="write the table to this Markdown file")
    options = arguments.parse_args()
    rows = []
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as directory:
            cut(options.data, Path(directory), size)
            rows.append(measure(Path(directory), size, options.workers))
        print(json.dumps(rows[-1]), flush=True)
    text = report(rows)
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


def cut(data: Path, directory: Path, size: int) -> None:
    """The first `size` lines of every language, compressed as the originals are."""
    for language in LANGUAGES:
        with (
            lzma.open(data / f"train.{language}.xz", "rb") as source,
            lzma.open(directory / f"train.{language}.xz", "wb", preset=1) as target,
        ):
            target.writelines(islice(source, size))
        for split in ("dev", "test"):
            name = f"{split}.{language}.xz"
            (directory / name).write_bytes((data / name).read_bytes())


def measure(directory: Path, size: int, workers: int) -> dict[str, Any]:
    experiment = {
        "languages": LANGUAGES,
        "corpora": [
            {"pair": f"en-{other}", "train": str(directory / "train.{lang}.xz")}
            for other in LANGUAGES[1:]
        ],
        "dev": str(directory / "dev.{lang}.xz"),
        "test": str(directory / "test.{lang}.xz"),
        "store": str(directory / "store"),
    }
    path = directory / "europarl.yaml"
    path.write_text(json.dumps(experiment), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "accord", "prepare", str(path), "-q", "--json", "-"]
    command += ["--workers", str(workers)]
    before, start = os.times(), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, memory(process.pid))
        time.sleep(0.5)
    wall, after = time.monotonic() - start, os.times()
    assert process.stdout is not None
    facts = json.loads(process.stdout.read())
    assert process.returncode == 0
    return {
        "lines": size,
        "workers": workers,
        "wall": wall,
        "cpu": after[2] + after[3] - before[2] - before[3],
        "peak_mb": peak / 1e6,
        "store_mb": sum(p.stat().st_size for p in (directory / "store").rglob("*")) / 1e6,
        "kept": {corpus["pair"]: corpus["lines"] for corpus in facts["corpora"]},
        "overlap_before": sum(shared["strings"] for shared in facts["overlap"]["before"]),
        "overlap_after": sum(shared["strings"] for shared in facts["overlap"]["after"]),
    }


def memory(root: int) -> int:
    """Bytes held by a process and all its descendants, shared pages counted once."""
    family = [root]
    total = 0
    for pid in family:  # it grows meanwhile
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                family += map(int, (task / "children").read_text().split())
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += sum(int(x.split()[1]) for x in rollup.splitlines() if x.startswith("Pss:"))
    return total * 1024


def report(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# `accord prepare` on Europarl",
        "",
        "Three corpora (en-de, en-es, en-fr) of so many lines each, made from one multi-parallel",
        "text, so that their English sides overlap completely; 32,000 subwords, mode `disjoint`.",
        "",
        f"- command: `python benchmarks/prepare.py`, commit {commit()}",
        f"- date: {datetime.date.today()}, hardware: {cores()} shared cores, "
        f"{platform.machine()}, no GPU; Python {platform.python_version()}",
        "- pairs/s: input pairs of all three corpora over wall-clock seconds of the whole command",
        "- memory: peak of all processes together (proportional set size)",
        "",
        "| lines a corpus | workers | wall s | CPU s | input pairs/s | peak MB | store MB "
        "| kept en-de / en-es / en-fr | shared English before → after |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        kept = " / ".join(f"{n:,}" for n in row["kept"].values())
        lines.append(
            f"| {row['lines']:,} | {row['workers']} | {row['wall']:.0f} | {row['cpu']:.0f} "
            f"| {3 * row['lines'] / row['wall']:,.0f} | {row['peak_mb']:,.0f} "
            f"| {row['store_mb']:.0f} | {kept} "
            f"| {row['overlap_before']:,} → {row['overlap_after']:,} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
