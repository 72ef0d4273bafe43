"""Who teaches: which weights translate the next round of the pool."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor, nn

from accord.config.model_settings import ModelSettings
from accord.config.objectives import CompleteConfig
from accord.config.schema import Experiment
from accord.config.third_languages import Triads
from accord.data.store import HeldOutSets, Store
from accord.errors import AccordError
from accord.files import atomic_write, expand
from accord.graph import Direction
from accord.inference.text import Decoder
from accord.metrics.bleu import bleu
from accord.metrics.rates import length_ratio
from accord.models.build import build_model
from accord.models.checkpoint import find_checkpoint
from accord.objectives.base import Context
from accord.objectives.distillation.pool import PoolState
from accord.objectives.distillation.teacher import Teacher
from accord.run_directory import RunDirectory

# --- Weights of teachers on disk, the guard before they teach, and a running average to teach
# with.
#
# RUN/teacher/step-00000500.safetensors holds the weights that a student had after 500 updates,
# the settings of their model, and a checksum. A version is written before it is used and never
# changed.


_SENTENCES = 500  # of each direction that the guard translates
_RATIO = 0.1  # how far the length of translations may move from that of the first teacher


class TeacherVersions:
    """The versions of a run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @staticmethod
    def name(step: int) -> str:
        """What the weights of a step are called."""
        return f"step-{step:08d}"

    def path(self, name: str) -> Path:
        """The file of a version."""
        return self.directory / f"{name}.safetensors"

    def write(self, name: str, tensors: Mapping[str, Tensor], settings: ModelSettings) -> None:
        """Keep these weights; the file is either there as a whole or not at all."""
        plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        with atomic_write(self.path(name), "wb") as out:
            text = settings.model_dump_json()
            out.write(serialised(plain, {"model": text, "sha256": _checksum(plain, text)}))

    def settings(self, name: str) -> ModelSettings:
        """The settings of the model that the weights belong to."""
        with _reading(self.path(name)), safe_open(self.path(name), "pt") as file:
            return ModelSettings.model_validate_json(file.metadata()["model"])

    def load(self, name: str, model: nn.Module) -> None:
        """Put the weights into a model, if they are what was written."""
        path = self.path(name)
        with _reading(path):
            with safe_open(path, "pt") as file:
                known = file.metadata()
            tensors = load_file(path)
            if known["sha256"] != _checksum(tensors, known["model"]):
                raise ValueError("they are not what was written")
            model.load_state_dict(tensors)

    def prune(self, keep: Collection[str]) -> None:
        """Delete all other versions."""
        for path in self.directory.glob("step-*.safetensors"):
            if path.stem not in keep:
                path.unlink(missing_ok=True)


def _checksum(tensors: Mapping[str, Tensor], settings: str) -> str:
    """The SHA-256 of all that a version holds, however the file puts it."""
    found = hashlib.sha256(settings.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.numpy().data)
    return found.hexdigest()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, ValueError, TypeError, LookupError, SafetensorError) as error:
        raise AccordError(
            f"the weights of the teacher cannot be read: {error}",
            where=str(path),
            fix="restore the file, or let another one teach from here on: change "
            "objective.complete.teacher, and continue with --accept-changes",
        ) from error


@dataclass(frozen=True)
class Quality:
    """Of a teacher's greedy translations of dev sentences, means over its directions."""

    bleu: float
    length_ratio: float


class Guard:
    """Measures teachers on the dev sentences of the directions they teach by."""

    def __init__(
        self, held_out: HeldOutSets, directions: Sequence[Direction], tolerance: float
    ) -> None:
        self.tolerance = tolerance
        sets = {direction: held_out.pair("dev", *direction) for direction in directions}
        self.sets = {
            direction: (sources[:_SENTENCES], references[:_SENTENCES])
            for direction, (sources, references) in sets.items()
            if sources
        }
        if not self.sets:
            raise AccordError(
                "the guard of the teacher has no dev sentences to measure it on",
                where="objective.complete.teacher.guard",
                fix="give `dev` sentences, or switch the guard off",
            )

    def measure(self, decoder: Decoder) -> Quality:
        """How well a teacher translates."""
        scores, ratios = [], []
        for direction, (sources, references) in self.sets.items():
            hypotheses = decoder.greedy(sources, direction.target, direction.source)
            scores.append(bleu(hypotheses, references, direction.target))
            ratios.append(length_ratio(hypotheses, references, direction.target))
        return Quality(float(np.mean(scores)), float(np.mean(ratios)))

    def refusal(self, found: Quality, best_bleu: float, first_ratio: float) -> str | None:
        """Why a teacher is not good enough, or None."""
        if found.bleu < best_bleu - self.tolerance:
            return f"BLEU {found.bleu:.2f} on the dev set, {best_bleu:.2f} before"
        if abs(found.length_ratio - first_ratio) > _RATIO * first_ratio:
            return (
                f"length ratio {found.length_ratio:.2f} on the dev set, {first_ratio:.2f} at first"
            )
        return None


class RunningAverage:
    """An exponential average of a model's weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._live = list(model.state_dict().values())
        self.tensors = {key: value.clone() for key, value in model.state_dict().items()}
        self._decay = decay

    @torch.no_grad()
    def follow(self) -> None:
        """Move towards the weights as they are now."""
        torch._foreach_lerp_(list(self.tensors.values()), self._live, 1 - self._decay)

    def restore(self, path: Path) -> None:
        """Take over an average that was saved."""
        for key, value in load_file(path).items():
            self.tensors[key].copy_(value)


AVERAGE = "average"  # what a checkpoint calls the weights of `ema`
_WHERE = "objective.complete.teacher"


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
        self._bf16 = context.bf16
        self._progress = context.progress
        self._stopped = stopped
        self._teacher: Teacher | None = None
        self._loaded = ""
        self._guard: Guard | None = None
        if config.teacher.kind != "frozen" and config.teacher.guard:
            directions = taught_by(self.experiment, Triads(self.experiment.graph, config.parts))
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
            self._teacher = Teacher(
                build_model(settings, len(self.store.vocabulary), self.experiment.training_seed),
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
        found = find_checkpoint(other.path, asked)
        name = self.versions.name(found.step)
        if asked == "average":  # not to be taken for the checkpoint of its last step
            name = f"{name}-{asked}"
        model = build_model(settings.model, len(self.store.vocabulary), settings.training_seed)
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
    find_checkpoint(other.path, checkpoint)
    return other
