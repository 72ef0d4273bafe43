"""The pool: rounds of a teacher's translations, made in the background one round ahead.

A round is on disk before it is used, whole, whatever the number of processes: each process makes a
share of it, the first joins the shares, and all read the same file. Batches are then cut from it as
from any corpus, so that every process knows the target tokens of the whole update without asking.
"""

import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.errors import AccordError
from accord.objectives.base import Cancelled
from accord.objectives.distillation.background import Worker
from accord.objectives.distillation.filters import KEPT
from accord.objectives.distillation.rounds import Round, RoundMaker, merged
from accord.objectives.distillation.sampling import Picker
from accord.ops.distributed import World

_LOOK_SECONDS = 0.5  # between two looks whether somebody said stop
_NAME = re.compile(r"round-(\d{6,})(\.\d+-of-\d+)?\.npz")


class Pool:
    """Rounds of one run. `load_teacher` puts a version's weights into the maker's teacher; `told`
    says whether to give up waiting.

    All processes must ask for the same things in the same order.
    """

    def __init__(
        self,
        directory: Path,
        picker: Picker,
        maker: RoundMaker,
        worker: Worker[Round],
        world: World,
        load_teacher: Callable[[str], None],
        told: Callable[[], bool] = lambda: False,
    ) -> None:
        self.directory = directory
        self.picker = picker
        self.maker = maker
        self.worker = worker
        self.world = world
        self._load_teacher = load_teacher
        self._told = told
        self._found: Round | None = None
        self._asked = -1

    def asked(self, number: int) -> bool:
        """Whether this is the round that was asked for last."""
        return number == self._asked

    def request(self, number: int, teacher: str, settings: str) -> None:
        """Begin to make a round, unless it is on disk already."""
        key = {"round": number, "teacher": teacher, "settings": settings}
        self._found, self._asked = None, number
        present = self.world.is_first and self._read(number, key) is not None
        if self.world.share("yes" if present else ""):
            self._found = self._read(number, key)
            return
        self.worker.start(lambda: self._make(number, key))

    def ready(self) -> bool:
        """Whether what was asked for is there, or has failed; all processes must ask, and agree."""
        return self._found is not None or not self.world.any(not self.worker.wait(0))

    def take(self, number: int) -> Round:
        """The round that was asked for; waits until it is there."""
        if self._found is not None:
            return self._found
        while self.world.any(not self.worker.wait(_LOOK_SECONDS)):
            if self.world.any(self._told()):
                raise Cancelled
        failed = self.world.any(self.worker.failed)
        made = self.worker.result()  # raises what went wrong, where it did
        if failed:
            raise AccordError(
                "another process could not make its share of the round",
                where=str(self.path(number)),
                fix="its own message says why; the same command resumes the run",
            )
        if self.world.size == 1:
            return made
        if self.world.is_first:  # all shares are on disk by now
            self._join(number)
        self.world.share("")
        return _whole(self.path(number))

    def path(self, number: int) -> Path:
        """The file of a round."""
        return self.directory / f"round-{number:06d}.npz"

    def _read(self, number: int, key: dict[str, Any]) -> Round | None:
        found = Round.load(self.path(number))
        same = found is not None and key.items() <= found.facts.items()
        return found if same else None

    def _make(self, number: int, key: dict[str, Any]) -> Round:
        """Runs in the background."""
        began = time.perf_counter()
        self._load_teacher(key["teacher"])
        picks = self.picker.picks(number).share(self.world.rank, self.world.size)
        made = self.maker.make(picks, key)
        made.facts["seconds"] = time.perf_counter() - began
        made.save(
            self.path(number) if self.world.size == 1 else self._share(number, self.world.rank)
        )
        return made

    def _share(self, number: int, rank: int) -> Path:
        return self.path(number).with_suffix(f".{rank}-of-{self.world.size}.npz")

    def _join(self, number: int) -> None:
        paths = [self._share(number, rank) for rank in range(self.world.size)]
        merged([_whole(path) for path in paths]).save(self.path(number))
        for path in paths:
            path.unlink()


def _whole(path: Path) -> Round:
    """A round, or a share of one, that was written a moment ago."""
    found = Round.load(path)
    if found is None:
        raise AccordError(
            "what was just written cannot be read",
            where=str(path),
            fix="all processes must see the same disk; the same command resumes the run",
        )
    return found


def prune_rounds(directory: Path, keep: Collection[int]) -> None:
    """Delete all other rounds, and shares of them."""
    for path in directory.glob("round-*"):
        name = _NAME.fullmatch(path.name)
        if name is None or int(name[1]) not in keep:
            path.unlink(missing_ok=True)


@dataclass
class PoolState:
    """The round in use, the next batch of it, and who teaches this round and the next one."""

    settings: str = ""
    """A fingerprint of all that rounds and batches follow from, beside the teacher."""
    round: int = -1
    epoch: int = 0
    batch: int = 0
    window: int = 0
    teacher: str = ""
    """Of the round in use; empty where none is."""
    next_teacher: str = ""
    asked: str = ""
    """Who was to teach when that was decided: another answer asks for another teacher."""
    best_bleu: float | None = None
    """Of the teachers that the guard let pass."""
    first_length_ratio: float | None = None
    guard: dict[str, Any] | None = None
    """What the guard said when the next round was asked for."""
    late: int = 0
    """Updates that would have had synthetic pairs, but for which the first round came too late."""


# --- What is said of a round that comes into use.


def pool_line(facts: dict[str, Any], guard: dict[str, Any] | None) -> dict[str, Any]:
    """A round as a line of metrics.jsonl."""
    dropped = dict(facts["fates"])
    kept = dropped.pop(KEPT)
    tokens = max(facts["target_tokens"], 1)
    line = {
        **{key: facts[key] for key in ("round", "teacher", "pairs", "seconds", "target_tokens")},
        **({"mass_kept": facts["mass"] / tokens} if "mass" in facts else {}),
        "translations": kept + sum(dropped.values()),
        "kept": kept,
        "dropped": dropped,
        "length_ratio": facts["target_tokens"] / max(facts["source_tokens"], 1),
    }
    return line if guard is None else {**line, "guard": guard}


def pool_sentence(line: dict[str, Any]) -> str:
    """The same for people."""
    reasons = ", ".join(f"{name} {count:,}" for name, count in line["dropped"].items() if count)
    mass = f", likely tokens hold {line['mass_kept']:.0%}" if "mass_kept" in line else ""
    return (
        f"round {line['round']} by {line['teacher']}: {line['kept']:,} of "
        f"{line['translations']:,} translations kept{f' (dropped: {reasons})' if reasons else ''}, "
        f"length ratio {line['length_ratio']:.2f}{mass}, made in {line['seconds']:.0f} s"
    )
