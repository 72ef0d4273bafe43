"""RUN/scored.jsonl: how often sentences were scored, one line per evaluation, never rewritten.

Who looks at a test set often enough finds a system that is good on it. The file says how often the
sentences behind a figure have been looked at by this run; other runs may have scored them too.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accord.evaluation.records import Evaluated, Evaluation, Lines
from accord.files import sync_directory, writing_errors

FILE = "scored.jsonl"


@dataclass(frozen=True)
class Use:
    """One evaluation of one set."""

    date: str
    split: str
    set: str
    first: int
    last: int
    """The lines that were scored, counted from 1."""
    references: str
    """SHA-256 of their references, in every direction that was scored."""
    evaluation: str
    checkpoint: str
    step: int
    options: dict[str, Any]
    """Of the search, and which ways of translating there were beside the direct one."""


@dataclass(frozen=True)
class Sentences:
    """The same sentences, however often they were scored."""

    split: str
    set: str
    first: int
    last: int
    references: str


def uses_of(evaluated: Evaluated) -> list[Use]:
    """What an evaluation adds: a use of every set that it scored."""
    evaluation = evaluated.evaluation
    first = evaluation.lines[0] if evaluation.lines else 1
    origin = evaluation.origin
    by_set: dict[str, list[Lines]] = {}
    for item in {item.direction: item for item in evaluated.lines}.values():
        by_set.setdefault(item.test_set, []).append(item)
    return [
        Use(
            date=evaluation.date,
            split=evaluation.split,
            set=name,
            first=first,
            last=first + max(len(item.references) for item in items) - 1,
            references=_digest(items),
            evaluation=evaluation.name,
            checkpoint=origin.checkpoint,
            step=origin.step,
            options={**evaluation.search, **_ways(evaluation)},
        )
        for name, items in by_set.items()
    ]


def _ways(evaluation: Evaluation) -> dict[str, bool]:
    return {
        "pivot": bool(evaluation.via_pivot),
        "ensemble": bool(evaluation.by_ensemble),
        "agreement": evaluation.agreement is not None,
    }


def _digest(items: Iterable[Lines]) -> str:
    found = hashlib.sha256()
    for item in sorted(items, key=lambda item: str(item.direction)):
        found.update("\n".join([str(item.direction), *item.references, ""]).encode())
    return found.hexdigest()


def note(run: Path, uses: Sequence[Use]) -> None:
    """Append to the run's file; on disk when this returns.

    It comes before the figures are written: a crash in between counts once too often, never once
    too rarely. A line that a crash cut off is closed first, so that it spoils no other; all is
    written at once, so that two processes do not mix their lines.
    """
    path = run / FILE
    text = "".join(f"{json.dumps(asdict(use), ensure_ascii=False)}\n" for use in uses)
    with writing_errors(path), path.open("ab+", buffering=0) as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            text = text if file.read(1) == b"\n" else f"\n{text}"
        file.write(text.encode())
        os.fsync(file.fileno())
    sync_directory(run)


def read_uses(run: Path) -> list[Use]:
    """All that were noted, in order; none for a run that was evaluated before there was a file."""
    path = run / FILE
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            found.append(Use(**json.loads(line)))
        except (ValueError, TypeError):
            continue  # cut off by a crash
    return found


def counted(uses: Iterable[Use]) -> Mapping[Sentences, list[Use]]:
    """The uses of the same sentences together, in the order of the first of each."""
    found: dict[Sentences, list[Use]] = {}
    for use in uses:
        same = Sentences(use.split, use.set, use.first, use.last, use.references)
        found.setdefault(same, []).append(use)
    return found
