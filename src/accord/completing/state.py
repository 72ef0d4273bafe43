"""Where a run stands in its pool: what a checkpoint needs to go on exactly there."""

from dataclasses import dataclass
from typing import Any


@dataclass
class PoolState:
    """The round in use, the next batch of it, and who teaches this round and the next one."""

    settings: str = ""
    """A fingerprint of all that rounds and batches follow from, beside the teacher."""
    round: int = -1
    epoch: int = 0
    batch: int = 0
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
