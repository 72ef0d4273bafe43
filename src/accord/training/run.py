"""The run directory: all that a trained model is and all that is known about how it came to be.

    experiment.yaml    every key in force        environment.json   versions, commit, hardware
    manifest.json      the data's own account    vocabulary.model   subwords and tags
    checkpoints/       see checkpoint.py         metrics.jsonl      one JSON object a line
    held_out/          dev and test sentences    token_counts.npz   per language, in training
    tensorboard/       where it is installed

Every later command takes this directory and nothing else.
"""

import difflib
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import accord
from accord.config import DATA_KEYS, Experiment
from accord.corpus.store import HeldOutSets, Store, read_manifest
from accord.corpus.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.experiment_file import dump, load
from accord.files import atomic_write, sync_directory, writing_errors
from accord.training.checkpoint import Checkpoints


class RunDirectory:
    """Paths inside a run, and what may be written there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoints")
        self.metrics = path / "metrics.jsonl"

    def experiment(self) -> Experiment:
        """The experiment that the run was made by."""
        file = self.path / "experiment.yaml"
        if not file.is_file():
            raise AccordError(
                "this is no run directory: it has no experiment.yaml",
                where=str(self.path),
                fix="give the directory that `accord train` wrote",
            )
        return load(file)

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

    def begin(self, experiment: Experiment, store: Store, accept_changes: bool) -> None:
        """Write what identifies the run, or compare with what is there."""
        file = self.path / "experiment.yaml"
        text = dump(experiment)
        before = file.read_text(encoding="utf-8") if file.is_file() else text
        if before != text and not accept_changes:
            raise AccordError(
                f"the run was made by another experiment:\n{_difference(before, text)}",
                where=str(file),
                fix="undo the change, choose another `run`, or continue all the same with "
                "--accept-changes",
            )
        with writing_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(store.directory / "manifest.json", self.path / "manifest.json")
            shutil.copyfile(store.data / "vocabulary.model", self.path / "vocabulary.model")
            for split in ("dev", "test"):
                if (store.data / split).is_dir():
                    shutil.copytree(
                        store.data / split, self.path / "held_out" / split, dirs_exist_ok=True
                    )
        with atomic_write(self.path / "token_counts.npz", "wb") as out:
            np.savez_compressed(out, **token_counts(store))  # type: ignore[arg-type]
        with atomic_write(self.path / "environment.json") as out:
            json.dump(environment(), out, indent=1)
        with atomic_write(file) as out:
            out.write(text)
        sync_directory(self.path)


def token_counts(store: Store) -> dict[str, npt.NDArray[np.int64]]:
    """Occurrences of every entry of the vocabulary, by language."""
    size = len(store.vocabulary)
    counts = {language: np.zeros(size, dtype=np.int64) for language in store.languages}
    for corpus in store.corpora:
        for language, side in zip(corpus.languages, corpus.sides, strict=True):
            counts[language] += np.bincount(side.ids, minlength=size)
    return counts


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


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
        "commit": _commit(),
        "command": sys.argv,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if cuda else platform.processor() or "cpu",
        "cudnn": torch.backends.cudnn.version() if cuda else None,  # type: ignore[no-untyped-call]
        "host": platform.platform(),
    }


def _commit() -> str | None:
    """The commit of a checkout; an installed package has none."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
