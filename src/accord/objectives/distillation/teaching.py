"""Who teaches: which weights translate the next round of the pool."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from torch import Tensor

from accord.config.checks import dotted
from accord.config.model_settings import ModelSettings
from accord.config.objectives import CompleteConfig
from accord.config.schema import Experiment
from accord.config.section import Location, Naming
from accord.config.third_languages import Triads
from accord.data.store import Store
from accord.errors import AccordError, traced_to
from accord.graph import Direction
from accord.models.base import Seq2Seq
from accord.models.build import build_model
from accord.models.checkpoint import Checkpoint, Checkpoints, find_checkpoint, open_checkpoint
from accord.models.ensemble import EnsembleModel
from accord.objectives.base import Context, other_run
from accord.objectives.distillation.pool import PoolState
from accord.objectives.distillation.teacher import Teacher
from accord.objectives.distillation.teacher_weights import (
    Guard,
    Quality,
    RunningAverage,
    TeacherVersions,
)
from accord.run_directory import RunDirectory

AVERAGE = "average"  # what a checkpoint calls the weights of `ema`
_KEY: Location = ("objective", "complete", "teacher", "run")


class Teaching:
    """Keeps the versions of the teacher, and decides on new ones. All processes must ask alike."""

    def __init__(
        self, config: CompleteConfig, context: Context, *, stopped: Callable[[], bool]
    ) -> None:
        self.config = config
        self.experiment = context.experiment
        self.store = context.store
        self.world = context.world
        self.student = context.model
        self.run = context.run
        self.versions = TeacherVersions(context.run.path / "teacher")
        self.average: RunningAverage | None = None
        self._bf16, self._named = context.bf16, context.named
        self._progress = context.progress
        self._stopped = stopped
        self._teacher: Teacher | None = None
        self._loaded = ""
        self._in_updates: Seq2Seq | None = None
        self._guard: Guard | None = None
        if config.teacher.kind != "frozen" and config.teacher.guard:
            directions = taught_by(self.experiment, Triads.of(self.experiment.graph, config))
            self._guard = Guard(self.store.held_out, directions, config.teacher.tolerance)

    @property
    def asked(self) -> str:
        """Who is to teach; all versions for one answer are of models of the same shape."""
        teacher = self.config.teacher
        if teacher.run is None:
            return teacher.kind
        return f"{teacher.kind} {teacher.run} {teacher.checkpoint}"

    @cached_property
    def other(self) -> RunDirectory | None:
        """The other run that teaches, if one does: needed only until its weights are copied."""
        return teaching_run(self.config, self.experiment, self.store, self._named)

    def decide(self, step: int, state: PoolState) -> None:
        """Set who teaches the next round, after so many updates of the student."""
        teacher = self.config.teacher
        state.guard = None
        if teacher.kind == "frozen" and state.next_teacher:
            return
        if teacher.kind == "ema" and self.average is None:
            self.average = RunningAverage(self.student, teacher.decay)
        candidate = self._write(step)
        if self._guard is None:
            state.next_teacher = candidate
        else:
            self._judge(self._guard, candidate, state)

    def restore(self, checkpoint: Path) -> None:
        """Go on from a checkpoint: only a running average has anything to remember."""
        file = checkpoint / f"{AVERAGE}.safetensors"
        if self.config.teacher.kind == "ema" and file.is_file():
            self.average = RunningAverage(self.student, self.config.teacher.decay)
            self.average.restore(file)

    def follow(self) -> None:
        """The student has made an update."""
        if self.average is not None:
            self.average.follow()

    def saved(self) -> dict[str, Mapping[str, Tensor]]:
        """What a checkpoint must hold beside the student."""
        return {AVERAGE: self.average.tensors} if self.average is not None else {}

    def teacher(self, name: str) -> Teacher:
        """The one that translates; its weights are another matter, see `load`."""
        if self._teacher is None:
            self._teacher = Teacher(
                self._built(
                    self.versions.settings(name),
                    self.experiment.training_seed,
                    self.versions.members(name),
                ),
                self.store.vocabulary,
                self.world.device,
                self.config.search,
                bf16=self._bf16,
                vote=self.config.teacher.vote,
                token_counts=self.run.token_counts,
                stopped=self._stopped,
            )
        return self._teacher

    def take_part(self, name: str) -> None:
        """Let a version be asked in updates, by a copy of its own: rounds are made meanwhile."""
        if self._in_updates is None:
            model = self._built(self.versions.settings(name), self.experiment.training_seed)
            self._in_updates = model.eval().requires_grad_(False).to(self.world.device)
        self.versions.load(name, self._in_updates)  # in place: CUDA graphs read these tensors

    @property
    def in_updates(self) -> Seq2Seq:
        """The teacher that `take_part` has let be asked."""
        if self._in_updates is None:
            raise ValueError("no teacher takes part in updates")
        return self._in_updates

    def _built(self, settings: ModelSettings, seed: int, members: int = 0) -> Seq2Seq:
        size, languages = len(self.store.vocabulary), len(self.store.languages)
        models = [build_model(settings, size, seed, languages) for _ in range(max(members, 1))]
        return EnsembleModel(models) if members else models[0]

    def load(self, name: str) -> None:
        """Give the teacher the weights of a version."""
        if self._loaded != name:
            self.versions.load(name, self.teacher(name).model)
            self._loaded = name

    def _write(self, step: int) -> str:
        """A new version on disk; its name."""
        tensors: Mapping[str, Tensor] = self.student.state_dict()
        name, settings = self.versions.name(step), self.experiment.model
        if self.other is not None:
            name, tensors, settings = self._of_other_run(self.other)
        elif step == 0:
            raise AccordError(
                "the teacher would be a model that has learnt nothing yet",
                where="objective.complete.start",
                fix="set it to a step at which the model translates, begin with a trained model "
                f"(training.init_from), or name one that teaches ({dotted(_KEY)})",
            )
        if self.average is not None:
            tensors = self.average.tensors
        if self.world.is_first:
            self.versions.write(name, tensors, settings)
        self.world.share("")  # nobody reads it before it is there
        return name

    def _of_other_run(self, other: RunDirectory) -> tuple[str, Mapping[str, Tensor], ModelSettings]:
        settings, asked = other.translator(), self.config.teacher.checkpoint
        found = _found(other, asked)
        name = self.versions.name(found[-1].step)
        if asked in ("average", "ensemble"):  # not to be taken for the checkpoint of its last step
            name = f"{name}-{asked}"
        models = [self._built(settings.model, settings.training_seed) for _ in found]
        for checkpoint, model in zip(found, models, strict=True):
            checkpoint.load_model(model)
        whole = EnsembleModel(models) if asked == "ensemble" else models[0]
        return name, whole.state_dict(), settings.model

    def _judge(self, guard: Guard, candidate: str, state: PoolState) -> None:
        """Let the candidate teach, if it is good enough; otherwise the present teacher goes on."""
        text = ""
        if self.world.is_first:
            self.load(candidate)
            text = json.dumps(vars(guard.measure(self.teacher(candidate).decoder)))
        found = Quality(**json.loads(self.world.share(text)))
        refusal = None
        if state.best_bleu is not None and state.first_length_ratio is not None:
            refusal = guard.refusal(found, state.best_bleu, state.first_length_ratio)
        else:
            state.best_bleu, state.first_length_ratio = found.bleu, found.length_ratio
        state.guard = {"candidate": candidate, **vars(found), "accepted": refusal is None}
        if refusal is None:
            state.next_teacher = candidate
            state.best_bleu = max(state.best_bleu, found.bleu)
        else:
            self._progress.note(f"{candidate} may not teach: {refusal}")


def taught_by(experiment: Experiment, triads: Triads) -> list[Direction]:
    """The directions in which a teacher translates."""
    found = {
        Direction(teacher, third)
        for corpus in experiment.trained_corpora
        for teacher, pupil in (corpus.languages, corpus.languages[::-1])
        for third in triads.thirds(teacher, pupil)
    }
    return sorted(found)


def teaching_run(
    config: CompleteConfig, experiment: Experiment, store: Store, named: Naming
) -> RunDirectory | None:
    """Another run that is to teach, if one is, and if it can."""
    teacher = config.teacher
    if teacher.run is None:
        return None
    with traced_to(named(_KEY)):
        other = other_run(teacher.run, store, "the teacher")
        _found(other, teacher.checkpoint)
        _check_directions(other, taught_by(experiment, Triads.of(experiment.graph, config)))
    return other


def _check_directions(other: RunDirectory, asked: Sequence[Direction]) -> None:
    """A run that trained some directions only can teach these only."""
    experiment = other.translator()
    missing = [str(d) for d in asked if d not in experiment.graph.supervised]
    if experiment.training.directions is None or not missing:
        return
    raise AccordError(
        f"the teacher is to translate {', '.join(missing)}, but was trained on "
        f"{', '.join(experiment.training.directions)} only",
        where=str(other.path),
        fix="name a run that was trained on them, or restrict objective.complete.directions to "
        "what this one can teach",
    )


def _found(other: RunDirectory, asked: str) -> list[Checkpoint]:
    """The checkpoints of a run that teach: one, or its last ones as an ensemble."""
    if asked != "ensemble":
        return [find_checkpoint(other.path, asked)]
    paths = Checkpoints(other.checkpoints).paths()[-other.experiment().training.keep :]
    if len(paths) < 2:
        raise AccordError(
            f"an ensemble has several members, but the run has {len(paths) or 'no'} checkpoint",
            where=str(other.path),
            fix="train it with a smaller training.save_every and a larger training.keep, or let "
            "`last` teach",
        )
    return [open_checkpoint(path) for path in paths]
