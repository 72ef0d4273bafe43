"""What the machine offers, and which version of the code it has."""

import os
import subprocess
from pathlib import Path

# More cannot be of use, and libraries die of far more instead of refusing them.
MOST_THREADS = 1024


def free_memory() -> int | None:
    """Bytes that programs may still take without swapping; None where nobody says."""
    return _memory_fact("MemAvailable")


def total_memory() -> int | None:
    """Bytes of memory that there are, or that a container may take; None where nobody says."""
    try:
        allowed = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such limit, or "max"
        allowed = None
    known = [found for found in (_memory_fact("MemTotal"), allowed) if found is not None]
    return min(known, default=None)


def _memory_fact(name: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        facts = dict(line.split(":", 1) for line in lines)
        return int(facts[name].split()[0]) * 1024
    except (OSError, ValueError, LookupError):
        return None


def cores() -> int:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def some_cores() -> int:
    """Threads for one model among others: half of the cores, at most 8."""
    return max(1, min(8, cores() // 2))


def commit() -> str | None:
    """The commit of a checkout; an installed package has none."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
