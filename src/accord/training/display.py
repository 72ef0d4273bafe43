"""What a person sees of training: what is to come, a line that moves, a row for each validation."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from accord.config.schema import Experiment, TrainingSettings
from accord.progress import Line, Progress, clock
from accord.training.validation import Scores

Values = Mapping[str, float | None]
_EVERY = 1.0  # seconds between two looks at the sums, which wait for the device
_LONG = 600.0  # seconds that somebody at a CPU may be ready to wait


def prospect(
    experiment: Experiment,
    *,
    parameters: int,
    per_epoch: int,
    done: int,
    seconds: float,
    limit: float,
    per_update: float | None,
    on_cpu: bool,
) -> Iterator[str]:
    """What is to come, in sentences, before the first update.

    `done` updates took `seconds` of at most `limit`; `per_update` is how long one takes, where that
    is known.
    """
    settings = experiment.training
    yield (
        f"{experiment.model.kind}: {parameters:,} parameters; batches of "
        f"{settings.batch_tokens:,} tokens, {per_epoch:,} updates per epoch"
    )
    left, by_clock = settings.steps - done, limit - seconds
    if left <= 0 or by_clock <= 0:
        return
    if per_update is None:
        yield f"{left:,} updates ({left / per_epoch:,.1f} epochs) to do"
        return
    needed = left * per_update
    if by_clock < needed:
        left, needed = int(by_clock / per_update), by_clock
    yield (
        f"{left:,} updates to do ({left / per_epoch:,.1f} epochs): about {duration(needed)}, "
        "validations not counted"
    )
    if on_cpu and needed > _LONG and math.isinf(limit):
        yield (
            f"long for a CPU; to end it after 10 minutes, at about {int(_LONG / per_update):,} "
            "updates, add\n  --set training.minutes=10"
        )


def duration(seconds: float) -> str:
    """A length of time in words, to two digits."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            amount = seconds / size
            return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
    whole = max(1, round(seconds))
    return f"{whole} second{'s' * (whole > 1)}"


class Display:
    """Tells `progress` how training goes, whatever `log_every` is."""

    def __init__(self, progress: Progress, settings: TrainingSettings) -> None:
        self._progress = progress
        self._settings = settings
        self._limit = math.inf
        self._shown = -_EVERY
        self._line = Line("", 0.0, "")
        self._before = (0.0, 0)  # seconds and updates of the last line of the log

    def begin(self, step: int, limit: float = math.inf) -> None:
        """Training is about to begin, or to go on; it ends when it has taken `limit` seconds."""
        self._limit = limit
        self._progress.start("training", self._settings.steps)
        self._progress.reach(step)

    def updated(self, step: int, seconds: float, look: Callable[[], Values]) -> None:
        """An update is done; `look` finds what has been added up, and is not asked every time."""
        if time.monotonic() - self._shown < _EVERY:
            return
        values = look()
        left = self._left(step, seconds, values)
        self._line = self._drawn(step, seconds, values, left)
        self._progress.reach(step, line=self._line)
        self._shown = time.monotonic()

    def logged(self, step: int, seconds: float, values: Values) -> None:
        """A line of the log is written; it is what plain lines show."""
        left = self._left(step, seconds, values)
        self._line = self._drawn(step, seconds, values, left)
        self._progress.reach(step, f"{_detail(values)} left {clock(left)}", self._line)
        self._shown = time.monotonic()
        self._before = (values["seconds"] or 0.0, int(values["steps"] or 0))

    def _left(self, step: int, seconds: float, values: Values) -> float:
        """By the speed of the updates since the last line of the log but one."""
        took = self._before[0] + (values["seconds"] or 0.0)
        updates = self._before[1] + int(values["steps"] or 0)
        left = (self._settings.steps - step) * took / max(updates, 1)
        return max(0.0, min(left, self._limit - seconds))

    def _drawn(self, step: int, seconds: float, values: Values, left: float) -> Line:
        steps, limit = self._settings.steps, self._limit
        count, share = f"{step:,}/{steps:,}", step / steps
        if math.isfinite(limit):
            count = f"{step:,} in {seconds / 60:.1f}/{round(limit / 60, 2):g} min"
            share = max(share, seconds / limit)
        loss, speed = values["loss"], values["target_tokens_per_s"] or 0.0
        text = f"loss {float('nan') if loss is None else loss:.3f} {_short(speed)} tok/s"
        return Line(count, min(share, 1.0), f"{text} left {clock(left)}")

    def validating(self, step: int) -> None:
        """The dev set is being measured, which may take a while."""
        self._progress.reach(step, line=replace(self._line, text="validating"))

    def validated(self, step: int, seconds: float, scores: Scores, best: bool) -> None:
        """A row of the table of validations."""
        cells = {"step": f"{step:,}", "time": clock(seconds)}
        cells["dev loss"] = f"{scores.cross_entropy:.3f}"
        if scores.bleu is not None and scores.exact is not None:
            cells |= {"BLEU": f"{scores.bleu:.1f}", "exact": f"{scores.exact:.0%}"}
        unsupervised = [one.bleu for one in scores.directions.values() if one.kind == "zero-shot"]
        if known := [bleu for bleu in unsupervised if bleu is not None]:
            cells["zero-shot BLEU"] = f"{np.mean(known):.1f}"
        if scores.agreement is not None:
            cells["agreement"] = f"{scores.agreement:.1f}"
        cells[""] = "best" if best else ""
        self._progress.row(cells, self._sentence(step, scores))

    def _sentence(self, step: int, scores: Scores) -> str:
        parts = [f"step {step:,}: dev cross-entropy {scores.cross_entropy:.3f}"]
        if scores.bleu is not None and scores.exact is not None:
            parts.append(f"BLEU {scores.bleu:.1f}, exact {scores.exact:.0%}")
        said = ", ".join(parts) + f" ({self._settings.validation.directions} directions)"
        return said if scores.agreement is None else f"{said}, agreement {scores.agreement:.1f}"


def _detail(values: Values) -> str:
    shown: dict[str, Any] = {k: float("nan") if v is None else v for k, v in values.items()}
    return (
        "loss {loss:.3f} ppl {perplexity:.1f} lr {lr:.2g} src {source_tokens_per_s:,.0f}/s "
        "tgt {target_tokens_per_s:,.0f}/s wait {wait_share:.0%}"
    ).format_map(shown)


def _short(number: float) -> str:
    """Three digits, so that lines keep their width: 950, 12.3k, 1.08M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            scaled = number / size
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{unit}"
    return f"{number:.0f}"
