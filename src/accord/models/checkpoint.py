"""Checkpoints: weights and optimiser state as safetensors, the rest as JSON; no pickle anywhere.

    checkpoints/step-00001000/model.safetensors
    checkpoints/step-00001000/optimizer.safetensors
    checkpoints/step-00001000/state.json        step, data position, best scores, checksums

Random numbers need no saving: each step draws its own from (seed, step, rank).
"""

import hashlib
import json
import os
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor, nn

from accord.errors import AccordError
from accord.files import (
    atomic_directory,
    atomic_write,
    clear_leftovers,
    clear_leftovers_in,
    sealed,
    sha256_of,
    writing_errors,
)
from accord.run_directory import COMBINED

FORMAT = 1
_NAME = re.compile(r"step-(\d{8,})")


def _first_difference(message: str) -> str:
    """Of PyTorch's list, which has a line for each tensor of a model."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = textwrap.shorten(" ".join(lines[1:2] or lines), 240, placeholder=" …")
    more = f" (and {len(lines) - 2:,} more)" if len(lines) > 2 else ""
    return first.rstrip(". ") + more


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
        try:
            model.load_state_dict(load_file(self.path / "model.safetensors"))
        except RuntimeError as error:
            raise AccordError(
                f"the weights are not those of this model: {_first_difference(str(error))}",
                where=str(self.path),
                fix="give the same `model` as the run that they are of; its experiment.yaml has it",
            ) from None

    def load_optimizer(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Put the optimiser's memory back; returns how many parameters it has none of."""
        tensors = load_file(self.path / "optimizer.safetensors")
        names = dict(model.named_parameters())
        for name, tensor in tensors.items():
            owner, _, key = name.rpartition("/")
            place = optimizer.param_groups[0] if owner == "" else optimizer.state[names[owner]]
            if key in place:
                place[key].copy_(tensor)
            else:
                place[key] = tensor.to(names[owner].device)
        known = {name.rpartition("/")[0] for name in tensors}
        new = [names[name] for name in names.keys() - known if names[name].requires_grad]
        return sum(parameter.numel() for parameter in new)


class Checkpoints:
    """The checkpoints of a run, the newest last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def paths(self) -> list[Path]:
        """All checkpoints by step, damaged ones included."""
        if not self.directory.is_dir():
            return []
        found = [p for p in self.directory.iterdir() if _NAME.fullmatch(p.name)]
        return sorted(found, key=_step)

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step is, or would be."""
        return self.directory / f"step-{step:08d}"

    def save(
        self,
        step: int,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        state: Mapping[str, Any],
        more: Mapping[str, Mapping[str, Tensor]] | None = None,
    ) -> Path:
        """Write a checkpoint; it is either there as a whole or not at all.

        `more` are further tensors, each mapping in a file of its own name.
        """
        path = self.path(step)
        with atomic_directory(path) as folder:
            sums = {
                "model.safetensors": _write(folder / "model.safetensors", model.state_dict()),
                "optimizer.safetensors": _write(
                    folder / "optimizer.safetensors", _optimizer_tensors(model, optimizer)
                ),
            }
            for name, tensors in (more or {}).items():
                file = f"{name}.safetensors"
                sums[file] = _write(folder / file, tensors)
            _seal(folder, {"step": step, **state, "files": sums})
        return path

    def last(self) -> Checkpoint | None:
        """The newest checkpoint, None before the first save; a damaged one is an error."""
        paths = self.paths()
        return open_checkpoint(paths[-1]) if paths else None

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, and what is wrong with newer ones.

        There is none before the first save only: a run whose checkpoints are all damaged is an
        error, since beginning it anew would throw away what may yet be rescued.
        """
        problems: list[str] = []
        for path in reversed(self.paths()):
            try:
                return open_checkpoint(path), problems
            except AccordError as error:
                problems.append(f"{path}: {error.what}")
        if problems:
            raise AccordError(
                "no checkpoint can be read:\n" + "\n".join(problems),
                where=str(self.directory),
                fix="restore one from a backup, or delete the run directory to begin anew",
            )
        return None, []

    def set_aside(self, after: int) -> None:
        """Rename the checkpoints after a step: damaged ones must not count as the newest."""
        for path in self.paths():
            if _step(path) > after:
                aside = path.with_name(f"{path.name}.damaged")
                with writing_errors(path):
                    shutil.rmtree(aside, ignore_errors=True)
                    path.rename(aside)

    def prune(self, keep: int, best: int | None) -> None:
        """Delete all but the newest `keep` and the best."""
        with writing_errors(self.directory):
            for path in self.paths()[:-keep]:
                if _step(path) != best:  # renamed first, so that nobody meets half a checkpoint
                    path.rename(path.with_name(f".{path.name}.old"))
        self.clear_leftovers()

    def clear_leftovers(self) -> None:
        """Delete what was being deleted or written; a killed process may have left it behind."""
        clear_leftovers_in(self.directory)  # gives back what was to be replaced
        for left in self.directory.glob(".step-*"):
            shutil.rmtree(left, ignore_errors=True)


def _step(path: Path) -> int:
    return int(path.name.split("-")[1])


def checkpoint_state(path: Path) -> dict[str, Any]:
    """All of a checkpoint but its tensors, if that is as it was written."""
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        whole = state["seal"] == sealed(state)["seal"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, "state.json", f"cannot be read ({error})") from error
    if not whole:
        raise _damaged(path, "state.json")
    if state["format"] != FORMAT:
        raise AccordError(
            f"a checkpoint of format {state['format']}, not {FORMAT}",
            where=str(path),
            fix="use the version of accord that wrote it",
        )
    found: dict[str, Any] = state
    return found


def open_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint, if all its files are as they were written."""
    state = checkpoint_state(path)
    for name, sha in state["files"].items():
        if not (path / name).is_file() or sha256_of(path / name) != sha:
            raise _damaged(path, name)
    return Checkpoint(path, state)


def _damaged(path: Path, name: str, how: str = "is not what was written") -> AccordError:
    """An error that says what else there is; whether that is whole is seen when it is opened."""
    others = [other.name for other in Checkpoints(path.parent).paths() if other != path]
    choice = f"choose another one (--checkpoint {' or '.join(others[::-1])}), or " if others else ""
    return AccordError(
        f"damaged checkpoint: {name} {how}",
        where=str(path / name),
        fix=f"restore it from a backup, {choice}run `accord train` with the run's experiment: it "
        "goes on from the newest checkpoint that is whole",
    )


def objective_states(state: Mapping[str, Any]) -> dict[str, Any]:
    """What each objective left in a checkpoint's state, by its name."""
    # Before objectives had a place of their own, only the pool of `complete` was kept.
    before = {"complete": state["complete"]} if state.get("complete") else {}
    return {**before, **state.get("objectives", {})}


def _write(file: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors and return the checksum of what should now be on disk."""
    # Not save_file(): of a full disk it tells in an error of its own kind, without a number.
    data = serialised(_plain(tensors))
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    return hashlib.sha256(data).hexdigest()


def _seal(folder: Path, state: Mapping[str, Any]) -> None:
    with atomic_write(folder / "state.json") as out:
        json.dump(sealed({"format": FORMAT, **state}), out, indent=1)


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
    mean = {name: (value / len(opened)).float() for name, value in total.items()}
    clear_leftovers(target)
    with atomic_directory(target) as folder:
        sums = {"model.safetensors": _write(folder / "model.safetensors", mean)}
        steps = [checkpoint.step for checkpoint in opened]
        _seal(folder, {"step": steps[-1], "average_of": steps, "files": sums})


def refuse_phrase_based(run: Path) -> None:
    """Say of a run that was trained without a network that it has no checkpoints."""
    if (run / "directions").is_dir():
        raise AccordError(
            "a phrase-based run has no checkpoints, and no network that could be averaged, "
            "exported or learnt from",
            where=str(run),
            fix="translate, evaluate or serve with it; for the rest take a run of another "
            "model.kind",
        )


def refuse_combined(run: Path) -> None:
    """Say of several runs in one that the checkpoints are theirs."""
    if (run / COMBINED).is_file():
        raise AccordError(
            "these are several runs, which `accord combine` put together",
            where=str(run),
            fix=f"name one of the runs: {COMBINED} lists them",
        )


def find_checkpoint(run: Path, name: str) -> Checkpoint:
    """The checkpoint that is called best, last, average, or by its step.

    A damaged one is an error: to take an older one in its place is for training alone to decide,
    which tells.
    """
    refuse_phrase_based(run)
    checkpoints = Checkpoints(run / "checkpoints")
    if name in ("best", "last"):
        newest = checkpoints.last()
        if newest is None:
            refuse_combined(run)
            raise AccordError(
                "the run has no checkpoint yet",
                where=str(run),
                fix="run `accord train` until it has saved one",
            )
        best = newest.state.get("best_step")
        if name == "last" or best is None or best == newest.step:
            return newest
        name = f"step-{best:08d}"
    path = checkpoints.directory / name
    if not path.is_dir():
        average = f"make it with `accord average {run}`" if name == "average" else ""
        known = ", ".join(path.name for path in checkpoints.paths()) or "none"
        raise AccordError(
            f"the run has no checkpoint '{name}'",
            where=str(run),
            fix=average or f"take best, last, average or one of those there are: {known}",
        )
    return open_checkpoint(path)
