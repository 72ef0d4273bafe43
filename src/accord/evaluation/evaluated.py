"""An evaluation with all that it was computed from."""

from dataclasses import dataclass

from accord.evaluation.lines import Lines
from accord.evaluation.result import Evaluation
from accord.scoring import Counts


@dataclass(frozen=True)
class Statistics:
    """What BLEU (cased) and chrF count in each sentence of a direction: [sentences, columns].

    They are kept because counting is slow and all else, resampling included, is quick.
    """

    bleu: Counts
    chrf: Counts


@dataclass(frozen=True)
class Evaluated:
    """Figures, texts, and by the name of each row the statistics of its sentences."""

    evaluation: Evaluation
    lines: tuple[Lines, ...]
    statistics: dict[str, Statistics]
