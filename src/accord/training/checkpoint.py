"""Checkpoints: weights and optimiser state as safetensors, the rest as JSON; no pickle anywhere.

    checkpoints/step-00001000/model.safetensors
    checkpoints/step-00001000/optimizer.safetensors
    checkpoints/step-00001000/state.json        step, data position, best scores, checksums

Random numbers need no saving: each step draws its own from (seed, step, rank).
"""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from accord.errors import AccordError
from accord.files import atomic_write, sha256_of, sync_directory, writing_errors

_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk whose files are whole."""

    path: Path
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """The number of updates that made these weights."""
        return int(self.state["step"])

    def load_model(self, model: nn.Module) -> None:
        """Put the weights into a model."""
        model.load_state_dict(load_file(self.path / "model.safetensors"))

    def load_optimizer(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Put the optimiser's memory back."""
        tensors = load_file(self.path / "optimizer.safetensors")
        names = dict(model.named_parameters())
        for name, tensor in tensors.items():
            owner, _, key = name.rpartition("/")
            place = optimizer.param_groups[0] if owner == "" else optimizer.state[names[owner]]
            if key in place:
                place[key].copy_(tensor)
            else:
                place[key] = tensor.to(names[owner].device)


class Checkpoints:
    """The checkpoints of a run, the newest last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def paths(self) -> list[Path]:
        """All checkpoints by step, damaged ones included."""
        if not self.directory.is_dir():
            return []
        found = [p for p in self.directory.iterdir() if _NAME.fullmatch(p.name)]
        return sorted(found, key=lambda path: int(path.name.split("-")[1]))

    def save(
        self,
        step: int,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        state: Mapping[str, Any],
    ) -> Path:
        """Write a checkpoint under a temporary name, then give it its own."""
        path = self.directory / f"step-{step:08d}"
        temporary = self.directory / f".{path.name}.{os.getpid()}"
        with writing_errors(path):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            try:
                save_file(_plain(model.state_dict()), temporary / "model.safetensors")
                save_file(_optimizer_tensors(model, optimizer), temporary / "optimizer.safetensors")
                _seal(temporary, {"step": step, **state})
                shutil.rmtree(path, ignore_errors=True)
                temporary.replace(path)
                sync_directory(self.directory)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        return path

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, and what is wrong with newer ones."""
        problems: list[str] = []
        for path in reversed(self.paths()):
            try:
                return open_checkpoint(path), problems
            except AccordError as error:
                problems.append(str(error))
        return None, problems

    def prune(self, keep: int, best: int | None) -> None:
        """Delete all but the newest `keep` and the best."""
        for path in self.paths()[:-keep]:
            if best is None or path.name != f"step-{best:08d}":
                shutil.rmtree(path, ignore_errors=True)
        for left in self.directory.glob(".step-*"):  # what a killed process left behind
            shutil.rmtree(left, ignore_errors=True)


def open_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint, if all its files are as they were written."""
    fix = "take an older checkpoint, or train again"
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        sums = dict(state["files"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise AccordError(f"damaged checkpoint: {error}", where=str(path), fix=fix) from error
    for name, sha in sums.items():
        if not (path / name).is_file() or sha256_of(path / name) != sha:
            raise AccordError(
                f"damaged checkpoint: {name} is not what was written", where=str(path), fix=fix
            )
    return Checkpoint(path, state)


def _seal(path: Path, state: Mapping[str, Any]) -> None:
    sums = {}
    for file in sorted(path.glob("*.safetensors")):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
        sums[file.name] = sha256_of(file)
    with atomic_write(path / "state.json") as out:
        json.dump({**state, "files": sums}, out, indent=1)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Named `parameter/key`, and `/key` for what all parameters share."""
    found = {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    for key, value in optimizer.param_groups[0].items():
        if isinstance(value, Tensor):
            found[f"/{key}"] = value
    return _plain(found)


def average(checkpoints: Sequence[Path], target: Path) -> None:
    """Write the mean of the weights of several checkpoints as a checkpoint of its own."""
    opened = [open_checkpoint(path) for path in checkpoints]
    total: dict[str, Tensor] = {}
    for checkpoint in opened:
        with safe_open(checkpoint.path / "model.safetensors", "pt") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                value = file.get_tensor(name).double()
                total[name] = total[name].add_(value) if name in total else value
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with writing_errors(target):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        mean = {name: (value / len(opened)).float() for name, value in total.items()}
        save_file(mean, temporary / "model.safetensors")
        _seal(temporary, {"step": opened[-1].step, "average_of": [c.step for c in opened]})
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
        sync_directory(target.parent)
