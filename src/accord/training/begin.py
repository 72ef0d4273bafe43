"""Beginning a run: what identifies it is written down; another experiment is refused."""

import json
import platform
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import accord
from accord.config.load import dump
from accord.config.schema import DATA_KEYS, Experiment
from accord.data.store import Store
from accord.errors import AccordError
from accord.files import atomic_write
from accord.machine import commit
from accord.models.checkpoint import Checkpoints
from accord.run_directory import RunDirectory


def begin_run(
    run: RunDirectory, experiment: Experiment, store: Store, accept_changes: bool
) -> list[str]:
    """Write what identifies the run; returns what changed since its last checkpoint.

    Changes must be accepted. Before the first checkpoint there is nothing they could spoil.
    """
    changes: list[str] = []
    if Checkpoints(run.checkpoints).paths():
        changes = _changes(run, experiment, store)
        if changes and not accept_changes:
            raise AccordError(
                "the run was made by another experiment:\n" + "\n".join(changes),
                where=str(run.path / "experiment.yaml"),
                fix="undo the change, choose another `run`, or continue all the same with "
                "--accept-changes",
            )
        _refuse_another_model(run, experiment, store)
    _write(run, experiment, store)
    return changes


def _changes(run: RunDirectory, experiment: Experiment, store: Store) -> list[str]:
    # Read as any experiment is, so that a key which is newer than the run has its default.
    before, now = run.experiment(), experiment
    old, new = flat(before.model_dump(mode="json")), flat(now.model_dump(mode="json"))
    old["the prepared data"] = run.manifest()["fingerprint"]
    new["the prepared data"] = store.manifest["fingerprint"]
    return [
        f"  {key}: {old.get(key, 'not set')}, now {new.get(key, 'not set')}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _refuse_another_model(run: RunDirectory, experiment: Experiment, store: Store) -> None:
    """Weights are of no use in another architecture or with another vocabulary."""
    before, now = run.experiment().model, experiment.model
    words, present = _vocabulary(run.manifest()), _vocabulary(store.manifest)
    if words == present and before == now.model_copy(update={"dropout": before.dropout}):
        return
    raise AccordError(
        f"the checkpoints are of another {'model' if words == present else 'vocabulary'}",
        where=str(run.path),
        fix="choose another `run`: this change cannot be accepted",
    )


def _write(run: RunDirectory, experiment: Experiment, store: Store) -> None:
    manifest = run.path / "manifest.json"
    if not manifest.is_file() or run.manifest() != store.manifest:
        _write_data(run, store)
    with atomic_write(run.path / "environment.json") as out:
        json.dump(environment(), out, indent=1)
    with atomic_write(run.path / "experiment.yaml") as out:
        out.write(dump(experiment))


def _write_data(run: RunDirectory, store: Store) -> None:
    copies = {"vocabulary.model": store.data / "vocabulary.model"}
    for split in ("dev", "test"):
        for file in (store.data / split).glob("*"):
            copies[f"held_out/{split}/{file.name}"] = file
    with atomic_write(run.path / "token_counts.npz", "wb") as out:
        np.savez_compressed(out, **store.token_counts())  # type: ignore[arg-type]
    # The manifest comes last: where it is, the rest is.
    for name, source in {**copies, "manifest.json": store.directory / "manifest.json"}.items():
        with atomic_write(run.path / name, "wb") as out:
            out.write(source.read_bytes())


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
