"""Weights of teachers on disk, the guard before they teach, and a running average to teach with.

RUN/teacher/step-00000500.safetensors holds the weights that a student had after 500 updates, the
settings of their model, and a checksum. A version is written before it is used and never changed.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor, nn

from accord.config.model_settings import ModelSettings
from accord.data.store import HeldOutSets
from accord.errors import AccordError
from accord.files import atomic_write
from accord.graph import Direction
from accord.inference.text import Decoder
from accord.metrics.bleu import bleu
from accord.metrics.rates import length_ratio

_MEMBERS = "members."  # how the names of an ensemble's weights begin
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
        """The settings of the model that the weights belong to, or of each in an ensemble."""
        with _reading(self.path(name)), safe_open(self.path(name), "pt") as file:
            return ModelSettings.model_validate_json(file.metadata()["model"])

    def members(self, name: str) -> int:
        """How many models the weights are of, if these are an ensemble; otherwise 0."""
        with _reading(self.path(name)), safe_open(self.path(name), "pt") as file:
            names = file.keys()
        return len({each.split(".")[1] for each in names if each.startswith(_MEMBERS)})

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
