"""Who teaches: which weights translate the next round of the pool."""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from torch import Tensor

from accord.completing.state import PoolState
from accord.completing.teacher import Teacher
from accord.completing.triads import Triads
from accord.config import Experiment, ModelSettings
from accord.config_objective import CompleteConfig
from accord.corpus.store import Store
from accord.errors import AccordError
from accord.files import expand
from accord.graph import Direction
from accord.model.gnmt import GNMT
from accord.progress import Progress
from accord.training.distributed import World
from accord.training.run import RunDirectory, find_checkpoint
from accord.training.setup import build_model
from accord.training.teachers import Guard, Quality, RunningAverage, TeacherVersions

AVERAGE = "average"  # what a checkpoint calls the weights of `ema`
_WHERE = "objective.complete.teacher"


class Teaching:
    """Keeps the versions of the teacher, and decides on new ones. All processes must ask alike."""

    def __init__(
        self,
        experiment: Experiment,
        config: CompleteConfig,
        store: Store,
        world: World,
        student: GNMT,
        run: RunDirectory,
        *,
        bf16: bool,
        progress: Progress,
        stopped: Callable[[], bool],
    ) -> None:
        self.experiment = experiment
        self.config = config
        self.store = store
        self.world = world
        self.student = student
        self.run = run
        self.versions = TeacherVersions(run.path / "teacher")
        self.average: RunningAverage | None = None
        self._bf16 = bf16
        self._progress = progress
        self._stopped = stopped
        self._teacher: Teacher | None = None
        self._loaded = ""
        self._guard: Guard | None = None
        if config.teacher.kind != "frozen" and config.teacher.guard:
            directions = taught_by(experiment, Triads(experiment.graph, config.parts))
            self._guard = Guard(store.held_out, directions, config.teacher.tolerance)

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
        teacher = self.config.teacher
        if teacher.run is None:
            return None
        return _opened(teacher.run, teacher.checkpoint, self.store)

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
            settings = self.versions.settings(name)
            changed = self.experiment.model_copy(update={"model": settings})
            self._teacher = Teacher(
                build_model(changed, len(self.store.vocabulary)),
                self.store.vocabulary,
                self.world.device,
                self.config.search,
                bf16=self._bf16,
                vote=self.config.teacher.vote,
                token_counts=self.run.token_counts,
                stopped=self._stopped,
            )
        return self._teacher

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
                f"(training.init_from), or name one that teaches ({_WHERE}.run)",
            )
        if self.average is not None:
            tensors = self.average.tensors
        if self.world.is_first:
            self.versions.write(name, tensors, settings)
        self.world.share("")  # nobody reads it before it is there
        return name

    def _of_other_run(self, other: RunDirectory) -> tuple[str, Mapping[str, Tensor], ModelSettings]:
        settings, asked = other.experiment(), self.config.teacher.checkpoint
        found = find_checkpoint(other, asked)
        name = self.versions.name(found.step)
        if asked == "average":  # not to be taken for the checkpoint of its last step
            name = f"{name}-{asked}"
        model = build_model(settings, len(self.store.vocabulary))
        found.load_model(model)
        return name, model.state_dict(), settings.model

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
        for corpus in experiment.corpora
        for teacher, pupil in (corpus.languages, corpus.languages[::-1])
        for third in triads.thirds(teacher, pupil)
    }
    return sorted(found)


def _opened(path: str, checkpoint: str, store: Store) -> RunDirectory:
    """Another run that is to teach, if it speaks the same subwords."""
    other = RunDirectory(Path(expand(path)))
    theirs, mine = other.vocabulary(), store.vocabulary
    if theirs.model != mine.model or theirs.tags != mine.tags:
        raise AccordError(
            "the teacher has another vocabulary",
            where=f"{_WHERE}.run, {other.path}",
            fix="name a run that was trained on the same prepared data",
        )
    find_checkpoint(other, checkpoint)
    return other
