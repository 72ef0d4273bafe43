"""The run directory: all that a trained model is and all that is known about how it came to be.

    experiment.yaml    every key in force        environment.json   versions, commit, hardware
    manifest.json      the data's own account    vocabulary.model   subwords and tags
    checkpoints/       see models/checkpoint.py  metrics.jsonl      one JSON object per line
    held_out/          dev and test sentences    token_counts.npz   per language, in training
    tensorboard/       where it is installed

Every later command takes this directory and nothing else. Nothing here needs PyTorch.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.config.load import load
from accord.config.schema import Experiment
from accord.data.store import HeldOutSets, read_manifest
from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.files import atomic_write, writing_errors


class RunDirectory:
    """Paths inside a run, and what can be read there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"

    @property
    def experiment_file(self) -> Path:
        """The experiment, every key in force; an error where there is none."""
        file = self.path / "experiment.yaml"
        if not file.is_file():
            raise AccordError(
                "this is no run directory: it has no experiment.yaml",
                where=str(self.path),
                fix="give the directory that `accord train` wrote, as it wrote it",
            )
        return file

    def experiment(self) -> Experiment:
        """The experiment that the run was made by."""
        return load(self.experiment_file)

    def manifest(self) -> Mapping[str, Any]:
        """The account of the data that the run was trained on."""
        return read_manifest(self.path)

    @property
    def held_out(self) -> HeldOutSets:
        """The dev and test sentences, kept here so that a run can be moved without its store."""
        return HeldOutSets(self.manifest()["held_out"], self.path / "held_out")

    def vocabulary(self) -> Vocabulary:
        """Subwords and tags."""
        return Vocabulary.load(self.path / "vocabulary.model", self.experiment().languages)

    def token_counts(self, language: str) -> npt.NDArray[np.int64]:
        """How often each entry of the vocabulary occurs in the training text of a language."""
        with np.load(self.path / "token_counts.npz") as counts:
            found: npt.NDArray[np.int64] = counts[language]
        return found


# --- metrics.jsonl: what is measured while training, one JSON object per line -------------------
#
# Every line has `kind` and `step`. `train`: means over the updates since the line before (loss,
# nll, rates, what each objective reports). `validation`: dev scores by direction. `pool`: a round
# of synthetic pairs that came into use.


class MetricsLog:
    """Appends one JSON object a line. Lines after the step that a run resumes from are dropped,
    so that the file always tells the story of one uninterrupted run."""

    def __init__(self, path: Path, tensorboard: Path, resume_step: int) -> None:
        self._path = path
        self._drop_after(path, resume_step)
        self._file = path.open("a", encoding="utf-8")
        self._board = _tensorboard(tensorboard, resume_step)

    @staticmethod
    def _drop_after(path: Path, step: int) -> None:
        if not path.is_file():
            return
        kept = [json.dumps(entry) for entry in read_metrics(path) if entry["step"] <= step]
        with atomic_write(path) as file:
            file.writelines(f"{line}\n" for line in kept)

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """One line, on its way to disk at once; a number that is not finite becomes null."""
        line = json.dumps(_finite({"kind": kind, "step": step, **values}), allow_nan=False)
        with writing_errors(self._path):
            self._file.write(line + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in _flat(values):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def sync(self) -> None:
        """Wait until all lines are on disk: a checkpoint must not be ahead of its log."""
        with writing_errors(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Nothing more to write."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def _tensorboard(directory: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory), purge_step=step + 1)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            found.append((prefix + name, float(value)))
    return found


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of metrics.jsonl in order; a run without one has none."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the last line of a process that was killed while writing
