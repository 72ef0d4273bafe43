"""The run directory: all that a trained model is and all that is known about how it came to be.

    experiment.yaml    every key in force        environment.json   versions, commit, hardware
    manifest.json      the data's own account    vocabulary.model   subwords and tags
    checkpoints/       see checkpoint.py         metrics.jsonl      one JSON object a line
    held_out/          dev and test sentences    token_counts.npz   per language, in training
    tensorboard/       where it is installed

Every later command takes this directory and nothing else.
"""

import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import accord
from accord.config.load import dump, load
from accord.config.schema import DATA_KEYS, Experiment
from accord.data.store import HeldOutSets, Store, read_manifest
from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.files import atomic_write
from accord.machine import commit
from accord.training.checkpoint import Checkpoint, Checkpoints, open_checkpoint


class RunDirectory:
    """Paths inside a run, and what may be written there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoints")
        self.metrics = path / "metrics.jsonl"

    def experiment(self) -> Experiment:
        """The experiment that the run was made by."""
        return load(self._experiment_file())

    @property
    def held_out(self) -> HeldOutSets:
        """The dev and test sentences, kept here so that a run can be moved without its store."""
        manifest = read_manifest(self.path)
        return HeldOutSets(manifest["held_out"], self.path / "held_out")

    def vocabulary(self) -> Vocabulary:
        """Subwords and tags."""
        return Vocabulary.load(self.path / "vocabulary.model", self.experiment().languages)

    def token_counts(self, language: str) -> npt.NDArray[np.int64]:
        """How often each entry of the vocabulary occurs in the training text of a language."""
        with np.load(self.path / "token_counts.npz") as counts:
            found: npt.NDArray[np.int64] = counts[language]
        return found

    def begin(self, experiment: Experiment, store: Store, accept_changes: bool) -> list[str]:
        """Write what identifies the run; returns what changed since its last checkpoint.

        Changes must be accepted. Before the first checkpoint there is nothing they could spoil.
        """
        changes: list[str] = []
        if self.checkpoints.paths():
            changes = self._changes(experiment, store)
            if changes and not accept_changes:
                raise AccordError(
                    "the run was made by another experiment:\n" + "\n".join(changes),
                    where=str(self.path / "experiment.yaml"),
                    fix="undo the change, choose another `run`, or continue all the same with "
                    "--accept-changes",
                )
            self._refuse_another_model(experiment, store)
        self._write(experiment, store)
        return changes

    def _changes(self, experiment: Experiment, store: Store) -> list[str]:
        # Read as any experiment is, so that a key which is newer than the run has its default.
        before, now = self.experiment(), experiment
        old, new = flat(before.model_dump(mode="json")), flat(now.model_dump(mode="json"))
        old["the prepared data"] = read_manifest(self.path)["fingerprint"]
        new["the prepared data"] = store.manifest["fingerprint"]
        return [
            f"  {key}: {old.get(key, 'not set')}, now {new.get(key, 'not set')}"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]

    def _refuse_another_model(self, experiment: Experiment, store: Store) -> None:
        """Weights are of no use in another architecture or with another vocabulary."""
        before, now = self.experiment().model, experiment.model
        words, present = _vocabulary(read_manifest(self.path)), _vocabulary(store.manifest)
        if words == present and before == now.model_copy(update={"dropout": before.dropout}):
            return
        raise AccordError(
            f"the checkpoints are of another {'model' if words == present else 'vocabulary'}",
            where=str(self.path),
            fix="choose another `run`: this change cannot be accepted",
        )

    def _experiment_file(self) -> Path:
        file = self.path / "experiment.yaml"
        if not file.is_file():
            raise AccordError(
                "this is no run directory: it has no experiment.yaml",
                where=str(self.path),
                fix="give the directory that `accord train` wrote, as it wrote it",
            )
        return file

    def _write(self, experiment: Experiment, store: Store) -> None:
        manifest = self.path / "manifest.json"
        if not manifest.is_file() or read_manifest(self.path) != store.manifest:
            self._write_data(store)
        with atomic_write(self.path / "environment.json") as out:
            json.dump(environment(), out, indent=1)
        with atomic_write(self.path / "experiment.yaml") as out:
            out.write(dump(experiment))

    def _write_data(self, store: Store) -> None:
        copies = {"vocabulary.model": store.data / "vocabulary.model"}
        for split in ("dev", "test"):
            for file in (store.data / split).glob("*"):
                copies[f"held_out/{split}/{file.name}"] = file
        with atomic_write(self.path / "token_counts.npz", "wb") as out:
            np.savez_compressed(out, **token_counts(store))  # type: ignore[arg-type]
        # The manifest comes last: where it is, the rest is.
        for name, source in {**copies, "manifest.json": store.directory / "manifest.json"}.items():
            with atomic_write(self.path / name, "wb") as out:
                out.write(source.read_bytes())


def find_checkpoint(run: RunDirectory, name: str) -> Checkpoint:
    """The checkpoint that is called best, last, average, or by its step."""
    checkpoints = run.checkpoints
    if name in ("best", "last"):
        newest, _ = checkpoints.newest()
        if newest is None:
            raise AccordError(
                "the run has no checkpoint yet",
                where=str(run.path),
                fix="run `accord train` until it has saved one",
            )
        best = newest.state.get("best_step")
        if name == "last" or best is None or best == newest.step:
            return newest
        name = f"step-{best:08d}"
    path = checkpoints.directory / name
    if not path.is_dir():
        average = f"make it with `accord average {run.path}`" if name == "average" else ""
        known = ", ".join(path.name for path in checkpoints.paths()) or "none"
        raise AccordError(
            f"the run has no checkpoint '{name}'",
            where=str(run.path),
            fix=average or f"take best, last, average or one of those there are: {known}",
        )
    return open_checkpoint(path)


def _vocabulary(manifest: Mapping[str, Any]) -> str:
    return str(manifest["files"]["vocabulary.model"]["sha256"])


def flat(value: Any, key: str = "") -> dict[str, Any]:
    """Every value below, by its dotted key."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list) and value:
        items = list(enumerate(value))
    else:
        return {key: value}
    return {
        k: v for name, inner in items for k, v in flat(inner, f"{key}.{name}".strip(".")).items()
    }


def token_counts(store: Store) -> dict[str, npt.NDArray[np.int64]]:
    """Occurrences of every entry of the vocabulary, by language."""
    size = len(store.vocabulary)
    counts = {language: np.zeros(size, dtype=np.int64) for language in store.languages}
    for corpus in store.corpora:
        for language, side in zip(corpus.languages, corpus.sides, strict=True):
            counts[language] += np.bincount(side.ids, minlength=size)
    return counts


def check_store(store: Store, experiment: Experiment) -> None:
    """Refuse a store that was prepared for another experiment than this."""
    manifest = store.manifest
    wanted = experiment.model_dump(mode="json", include=set(DATA_KEYS))
    for key, value in manifest["settings"].items():
        if wanted[key] != value:
            raise AccordError(
                f"the data was prepared with another `{key}`: {value}, now {wanted[key]}",
                where=str(store.directory),
                fix="run `accord prepare` again",
            )


def environment() -> dict[str, Any]:
    """What a result may depend on beside the experiment."""
    cuda = torch.cuda.is_available()
    return {
        "accord": accord.__version__,
        "commit": commit(),
        "command": sys.argv,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if cuda else platform.processor() or "cpu",
        "cudnn": torch.backends.cudnn.version() if cuda else None,  # type: ignore[no-untyped-call]
        "host": platform.platform(),
    }
