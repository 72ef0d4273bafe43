"""Training state: where a run stands, apart from weights and optimiser."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from accord.config.schema import TrainingSettings
from accord.data.batches import Position
from accord.models.checkpoint import Checkpoint, objective_states
from accord.training.running_totals import Totals


@dataclass
class TrainState:
    """Where a run stands, apart from weights and optimiser: what a checkpoint's JSON holds."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    branched_at: float = 0.0
    """`seconds` of the run that this one branched off, there and then."""
    skipped: int = 0
    bad_in_a_row: int = 0
    best: float | None = None
    best_step: int | None = None
    best_by: str = ""
    """What `best` measures; scores of another kind cannot be compared with it."""
    without_best: int = 0
    """Validations since the best one."""
    totals: Totals = field(default_factory=Totals)
    """The line of the log that has begun."""
    objectives: dict[str, Any] = field(default_factory=dict)
    """What each objective goes on from, by its name."""

    def judge(self, score: float) -> bool:
        """Take note of a validation; whether it is the best so far. Higher is better."""
        if math.isnan(score) or (self.best is not None and score <= self.best):
            self.without_best += 1
            return False
        self.best, self.best_step, self.without_best = score, self.step, 0
        return True

    def measure_by(self, what: str) -> None:
        """From now on scores mean `what`; a best by another measure is forgotten."""
        if self.best_by != what:
            self.best, self.best_step, self.without_best = None, None, 0
        self.best_by = what

    def time_limit(self, settings: TrainingSettings) -> float:
        """The `seconds` at which the run ends by the clock; infinite where only updates count."""
        whole, own = (
            math.inf if minutes is None else 60 * minutes
            for minutes in (settings.minutes, settings.branch_minutes)
        )
        return min(whole, self.branched_at + own)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, all but the step, which a checkpoint names itself."""
        return {key: value for key, value in asdict(self).items() if key != "step"}

    @staticmethod
    def of(checkpoint: Checkpoint) -> "TrainState":
        """The state that a checkpoint was saved with."""
        kept = checkpoint.state
        state = {key: kept[key] for key in TrainState.__dataclass_fields__ if key in kept}
        made = {
            "position": Position(**state["position"]),
            "totals": Totals.of(state["totals"]),
            "objectives": objective_states(kept),
        }
        return TrainState(**state | made)
