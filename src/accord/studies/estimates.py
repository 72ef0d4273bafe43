"""How long a reproduction takes, and what it or a study needs on disk: rough, and said before.

Times are those of one H200: benchmarks/train_speed_h200_202611.md, docs/results/agreement.md,
benchmarks/decode_speed_h200_202611.md and benchmarks/transformer_speed_h200_202611.md. An update of
GNMT takes a fixed time and a time for each of its target tokens, both fitted to the rows of that
table. A Transformer's takes a time for each target token and weight that this is multiplied with.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accord.config.model_settings import ModelSettings
from accord.config.objectives import CompleteConfig
from accord.config.schema import Experiment
from accord.fetching.catalogue import dataset
from accord.files import existing_parent
from accord.run_directory import RunDirectory
from accord.studies.branches import Study
from accord.studies.journal import Journal
from accord.studies.plan import BURN_IN, PlannedRun, PlannedStudy
from accord.studies.reproduction import Plan, Stage
from accord.studies.runner import is_trained

# GNMT: seconds an update, and a target token; by `model.input_feeding`.
_UPDATE = {False: (0.0076, 0.94e-6), True: (0.0098, 1.05e-6)}
_TRANSFORMER = 0.0236 / 23_260 / 47.9e6
"""Seconds a target token and weight: 23.6 ms an update of 23,260 tokens with 6+3 layers, 512 units
and 32,000 subwords. For 6+6 layers, ×1.28 was measured, and this gives ×1.26."""
_BF16_ONLY = 2.0
"""fp32 counts twice: the table is bf16, and fp32 was not measured."""
_AGREEMENT = {"hard": 2.6, "sampled": 2.6, "continuous": 5.3, "straight-through": 5.3}
"""Times the update of Basic, computed in every update; sampled, straight-through by analogy."""
_ROUND = 0.72
"""What decoding synthetic pairs takes, of the time that training on them once does. From ×1.41 of
Basic with every third update and three uses (docs/results/europarl-complete.md)."""
FILLED = 0.87
"""Target tokens in `batch_tokens`, which counts padding and the longer side."""
_MILLION_PAIRS = 60.0
"""Seconds of one core that `prepare` takes."""
_EVALUATION_ROWS, _SCORING, _BEAM_STEP = 18, 28.0, 4.2
"""Seconds for 18 rows of 2,000 sentences: scoring, and searching for each hypothesis kept."""
_PAIR_BYTES = 150
"""In a store, a pair kept."""
_SECONDS = 3600.0

ASSUMPTIONS = (
    "An estimate, from figures measured on one NVIDIA H200 in bf16 "
    "(benchmarks/train_speed_h200_202611.md); agreement costs 2.6 (hard) or 5.3 (continuous) "
    "times an update (GNMT's figures, for a Transformer too); "
    "fp32 is taken as twice bf16, which was not measured. "
    "--speed gives your own target tokens a second of Basic. Time to fetch is not counted."
)


@dataclass(frozen=True)
class Disk:
    """Gigabytes."""

    stores: float
    runs: float


def hours(stage: Stage, plan: Plan, speed: float | None = None) -> float:
    """How long a stage takes from its beginning, by `speed` in target tokens a second of Basic."""
    if stage.study is None:
        return 0.0
    if stage.kind == "prepare":
        return plan.setting.lines / 1e6 * _MILLION_PAIRS / _SECONDS
    if stage.kind == "train":
        return _training(stage.study, stage.run, speed) / _SECONDS
    if stage.kind == "evaluate":
        graph = stage.study.experiment.graph
        rows = len(graph.directions) + len(graph.zero_shot)
        share = rows / _EVALUATION_ROWS
        return share * (_SCORING + _BEAM_STEP * plan.options.beam) / _SECONDS
    return 0.0


def _training(study: Study, run: str, speed: float | None) -> float:
    experiment = study.experiment
    seconds = _update(experiment, speed)
    if run == BURN_IN:
        return study.start * seconds
    updates = experiment.training.steps - study.start
    agreement = experiment.objective.agreement
    if run == "agree" and agreement is not None:
        part = agreement.fraction / agreement.every
        return updates * seconds * (1 + (_AGREEMENT[agreement.decoding] - 1) * part)
    if run == "complete":
        complete = experiment.objective.complete or CompleteConfig()
        return updates * seconds * (1 + (1 + _ROUND / complete.uses) / complete.every)
    return updates * seconds


def _update(experiment: Experiment, speed: float | None) -> float:
    tokens = FILLED * experiment.training.batch_tokens
    if speed is not None:
        return tokens / speed
    fixed, each = _UPDATE[bool(experiment.model.input_feeding)]
    if experiment.model.kind == "transformer":
        fixed, each = 0.0, _TRANSFORMER * _multiplied(experiment)
    slower = _BF16_ONLY if experiment.training.precision == "fp32" else 1.0
    return slower * (fixed + each * tokens)


def disk(plan: Plan) -> Disk:
    """What the stores and all checkpoints take in the end; fetched text comes on top."""
    stores = runs = 0.0
    for study in plan.studies:
        limits = [corpus.limit for corpus in study.experiment.corpora]
        most = sum(limit for limit in limits if limit is not None)
        pairs = most if None not in limits else plan.setting.lines
        stores += min(pairs, plan.setting.lines) * _PAIR_BYTES / 1e9
        runs += (1 + len(plan.options.branches)) * run_bytes(study.experiment) / 1e9
    return Disk(stores, runs)


def run_bytes(experiment: Experiment) -> float:
    """Kept checkpoints and the best one: weights in fp32, for Adam with two moments."""
    weights = 4 * parameters(experiment)
    kept = experiment.training.keep + 1
    return kept * weights * (3.0 if experiment.training.optimizer.kind == "adam" else 1.0)


@dataclass(frozen=True)
class Space:
    """What checkpoints still to come need of a disk, in bytes, and what it has."""

    place: Path
    runs: int
    """How many of the study are still to be trained and keep checkpoints."""
    needed: float
    free: float
    least_keep: int
    """The fewest checkpoints that the plan can do with."""
    keeps_more: bool
    """Whether some run keeps more than these."""

    @property
    def fits(self) -> bool:
        """Whether there is room for them, as far as one can tell."""
        return self.needed <= self.free

    @property
    def sentence(self) -> str:
        """For people."""
        if not self.runs:
            return "no checkpoints to come"
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return (
            f"checkpoints of {runs} still to be trained take about {_size(self.needed)}; "
            f"{_size(self.free)} are free for {self.place}"
        )

    @property
    def fix(self) -> str:
        """What to do where they do not fit."""
        fewer = f"set `training.keep: {self.least_keep}` in the plan's settings, "
        return f"{fewer if self.keeps_more else ''}free some space, or choose another place: --out"


def space(study: PlannedStudy, left: Sequence[PlannedRun]) -> Space:
    """Compare what runs that are left will write with what is free where the study lies."""
    left = [run for run in left if run.experiment.model.is_network]
    needed, least = 0.0, study.plan.average or 1
    for run in left:
        average = 4 * parameters(run.experiment) if study.plan.average else 0
        there = _bytes_in(RunDirectory(run.directory).checkpoints)
        needed += max(0.0, run_bytes(run.experiment) + average - there)
    more = any(run.experiment.training.keep > least for run in left)
    free = shutil.disk_usage(existing_parent(study.out)).free
    return Space(study.out, len(left), needed, free, least, more)


def shortage(study: PlannedStudy, journal: Journal) -> Space | None:
    """What is wanting, if anything is. Where all runs would fit, nobody asks which are trained:
    that reads their checkpoints."""
    if space(study, study.runs).fits:
        return None
    found = space(study, [run for run in study.runs if not is_trained(run, journal)])
    return None if found.fits else found


def _bytes_in(directory: Path) -> int:
    """A run that goes on has written part of it already."""
    return sum(path.stat().st_size for path in directory.glob("*/*"))


def _size(needed: float) -> str:
    return f"{needed / 1e9:.1f} GB" if needed >= 1e8 else f"{needed / 1e6:.1f} MB"


def _multiplied(experiment: Experiment) -> int:
    """Weights that a target token is multiplied with: all but a table that is only looked up."""
    return sum(n for name, n in _sizes(experiment).items() if "source_embedding" not in name)


def parameters(experiment: Experiment) -> int:
    """How many weights its model has; 0 for one that is no network."""
    return sum(_sizes(experiment).values()) if experiment.model.is_network else 0


def _sizes(experiment: Experiment) -> Mapping[str, int]:
    return _built(experiment.model, experiment.vocabulary.size, len(experiment.languages))


@cache
def _built(settings: ModelSettings, size: int, languages: int) -> Mapping[str, int]:
    """The parameters of a model, by name; the many runs of a study have few models."""
    import torch

    from accord.models.build import build_model

    with torch.device("meta"):
        model = build_model(settings, size, 0, languages)
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


def overview(plan: Plan, speed: float | None = None) -> str:
    """What would be done, and what has been."""
    return "\n".join(_lines(plan, speed)) + "\n"


def _lines(plan: Plan, speed: float | None) -> Iterator[str]:
    yield f"{plan.setting.name}, {plan.scale} scale: {len(plan.stages)} stages, to {plan.directory}"
    total = left = 0.0
    for number, stage in enumerate(plan.stages, start=1):
        time, done = hours(stage, plan, speed), stage.done()
        total += time
        left += 0.0 if done else time
        said = "done" if done else _time(time)
        yield f"\n{number}. {plan.title(stage)}{f' [{said}]' if said else ''}"
        yield f"   {stage.command}"
    yield f"\nThen {plan.page} is written."
    needed = disk(plan)
    rest = f", of which {_time(left) or 'hardly any'} is still to come" if left < total else ""
    yield f"\nTime: {_time(total) or 'minutes'}{rest}. {ASSUMPTIONS}"
    yield (
        f"Disk: data {dataset(plan.setting.dataset).size} (below {plan.data}); stores about "
        f"{needed.stores:.1f} GB, checkpoints about {needed.runs:.1f} GB (below {plan.directory})."
    )


def _time(hours: float) -> str:
    """`about 3.4 hours`, `about 12 minutes`; nothing for what takes no time worth naming."""
    minutes = 60 * hours
    if minutes < 0.5:
        return ""
    return f"about {hours:.1f} hours" if hours >= 1 else f"about {minutes:.0f} min"
