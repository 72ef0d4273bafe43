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
from accord.data.store import Store, write_manifest
from accord.errors import AccordError
from accord.files import atomic_write, sealed, sha256_of
from accord.machine import commit
from accord.models.checkpoint import Checkpoints
from accord.run_directory import FORMAT, RunDirectory, with_seal


def begin_run(
    run: RunDirectory, experiment: Experiment, store: Store, accept_changes: bool
) -> list[str]:
    """Write what identifies the run; returns what changed since its last checkpoint.

    Changes must be accepted. Before the first checkpoint, or the first direction of a phrase-based
    run, there is nothing they could spoil.
    """
    changes: list[str] = []
    checkpoints = Checkpoints(run.checkpoints)
    checkpoints.clear_leftovers()
    if checkpoints.paths() or (run.path / "directions").is_dir():
        manifest = _recorded(run, store)
        changes = _changes(run, experiment, manifest, store)
        if changes and not accept_changes:
            raise AccordError(
                "the run was made by another experiment:\n" + "\n".join(changes),
                where=str(run.path / "experiment.yaml"),
                fix="undo the change, choose another `run`, or continue all the same with "
                "--accept-changes",
            )
        _refuse_another_model(run, experiment, manifest, store)
    return changes + _write(run, experiment, store)


def _recorded(run: RunDirectory, store: Store) -> Mapping[str, Any]:
    """The account of the data that the run was trained on; checkpoints know a damaged one's."""
    try:
        return run.manifest()
    except AccordError:
        newest, _ = Checkpoints(run.checkpoints).newest()
        known = newest.state.get("data", {}) if newest is not None else {}
        if known.get("fingerprint") != store.manifest["fingerprint"]:
            raise
        return store.manifest


def _changes(
    run: RunDirectory, experiment: Experiment, manifest: Mapping[str, Any], store: Store
) -> list[str]:
    try:
        # Read as any experiment is, so that a key which is newer than the run has its default.
        before = run.experiment()
    except AccordError as error:
        return [f"  the experiment cannot be compared: {error.where}: {error.what}"]
    old, new = (flat(one.model_dump(mode="json")) for one in (before, experiment))
    old["the prepared data"] = manifest["fingerprint"]
    new["the prepared data"] = store.manifest["fingerprint"]
    return [
        f"  {key}: {old.get(key, 'not set')}, now {new.get(key, 'not set')}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _refuse_another_model(
    run: RunDirectory, experiment: Experiment, manifest: Mapping[str, Any], store: Store
) -> None:
    """Weights are of no use in another architecture or with another vocabulary."""
    now = experiment.model
    try:
        before = run.experiment().model
    except AccordError:
        before = now  # nobody knows; the weights themselves will tell
    if before.kind == now.kind == "phrase-based":
        return  # each of its stages knows what it was made of
    words, present = _vocabulary(manifest), _vocabulary(store.manifest)
    if words == present and before == now.model_copy(update={"dropout": before.dropout}):
        return
    raise AccordError(
        f"the checkpoints are of another {'model' if words == present else 'vocabulary'}",
        where=str(run.path),
        fix="choose another `run`: this change cannot be accepted",
    )


def _write(run: RunDirectory, experiment: Experiment, store: Store) -> list[str]:
    """Bring the run's files up to date; what is said of copies that had been damaged."""
    with atomic_write(run.path / "environment.json") as out:
        json.dump(sealed(environment()), out, indent=1)
    with atomic_write(run.path / "experiment.yaml") as out:
        out.write(with_seal(dump(experiment)))
    said = []
    if (run.path / "manifest.json").is_file():
        try:
            if _data_part(run.manifest()) == _data_part(store.manifest) and "run" in run.manifest():
                run.check_copies()
                return []
        except AccordError as error:
            said = [f"  {error.where}: {error.what}, now written anew from the store"]
    _write_data(run, store)
    return said


def _data_part(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest without what a run adds to it."""
    return {key: value for key, value in manifest.items() if key not in ("run", "seal")}


def _write_data(run: RunDirectory, store: Store) -> None:
    """Copies of what later commands need, so that they need no store."""
    copies = {"vocabulary.model": store.data / "vocabulary.model"}
    for split in ("dev", "test"):
        for file in (store.data / split).glob("*"):
            copies[f"held_out/{split}/{file.name}"] = file
    for name, source in copies.items():
        with atomic_write(run.path / name, "wb") as out:
            out.write(source.read_bytes())
    counts = run.path / "token_counts.npz"
    with atomic_write(counts, "wb") as out:
        np.savez_compressed(out, **store.token_counts())  # type: ignore[arg-type]
    # The manifest comes last: where it is, the rest is, with the seals that it asks for.
    own = {"format": FORMAT, counts.name: sha256_of(counts)}
    write_manifest(run.path, {**store.manifest, "run": own})


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
