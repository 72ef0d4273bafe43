"""Commands of `accord` as parts of a study: what would be typed, and carrying it out in time."""

import json
import math
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

GRACE = 60.0
"""Seconds that a command has to end when it is told to; it may be in the middle of a validation."""
_ASK = 0.25
"""Seconds between two questions whether a command has done enough."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """The arguments of `accord`, and whether their result is there already."""

    arguments: tuple[str, ...]
    done: Callable[[], bool]
    output: Path | None = None
    """Where stdout goes, if it is the result."""

    @property
    def command(self) -> str:
        """What a person would type."""
        typed = f"accord {shlex.join(self.arguments)}"
        if self.output is None:
            return typed
        folder, file = (shlex.quote(str(path)) for path in (self.output.parent, self.output))
        return f"mkdir -p {folder} && {typed} > {file}"


def as_typed(path: Path) -> Path:
    """A path as short as it can be typed from here: figures keep their commands, and no machine's
    paths belong there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def assignment(key: str, value: Any) -> str:
    """`key=value` for --set, quoted where YAML would read something else."""
    if not isinstance(value, str):
        return f"{key}={json.dumps(value, ensure_ascii=False)}"
    try:
        plain = yaml.safe_load(value) == value
    except yaml.YAMLError:
        plain = False
    return f"{key}={value if plain else json.dumps(value)}"


def set_options(changes: Iterable[str]) -> tuple[str, ...]:
    """Changes of an experiment as arguments."""
    return tuple(part for change in changes for part in ("--set", change))


class Processes:
    """The commands that run at the moment, each in a process of its own."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = Lock()
        self.stopped = False

    def run(
        self,
        arguments: Iterable[str],
        seconds: float = math.inf,
        enough: Callable[[], bool] | None = None,
    ) -> str:
        """What a command printed. It is told to stop, as training can be, after so many seconds, or
        when it has done enough."""
        line, pipe = [sys.executable, "-m", "accord", *arguments], subprocess.PIPE
        with subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True) as process:
            with self._lock:
                self._running.add(process)
            if self.stopped:  # meanwhile, by another thread
                process.terminate()
            try:
                printed, said = _ended(process, seconds, enough)
            except BaseException:  # nobody would be left to stop it
                process.terminate()
                raise
            finally:
                with self._lock:
                    self._running.remove(process)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, line, printed, said)
        return printed

    def stop(self) -> None:
        """Tell all commands to save and stop; no other one begins."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                process.terminate()


def _ended(
    process: "subprocess.Popen[str]", seconds: float, enough: Callable[[], bool] | None
) -> tuple[str, str]:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        wait = left if enough is None else min(left, _ASK)
        try:
            return process.communicate(timeout=wait if math.isfinite(wait) else None)
        except subprocess.TimeoutExpired:
            if enough is not None and enough():
                break
    process.terminate()
    try:
        return process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()
