"""Where a run stands, apart from weights and optimiser."""

from dataclasses import asdict, dataclass, field
from typing import Any

from accord.corpus.batches import Position
from accord.training.checkpoint import Checkpoint


@dataclass
class Standing:
    """Where a run stands, apart from weights and optimiser: what a checkpoint's JSON holds."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    skipped: int = 0
    best: float | None = None
    best_step: int | None = None
    without_best: int = 0
    """Validations since the best one."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, all but the step, which a checkpoint names itself."""
        return {key: value for key, value in asdict(self).items() if key != "step"}

    @staticmethod
    def of(checkpoint: Checkpoint) -> "Standing":
        """The standing that a checkpoint was saved with."""
        state = {key: checkpoint.state[key] for key in Standing.__dataclass_fields__}
        return Standing(**state | {"position": Position(**state["position"])})
