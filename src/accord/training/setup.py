"""What a process needs before its first update: threads, the model, and where the run stands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from accord.config.schema import Experiment
from accord.config.section import Naming
from accord.data.batches import Position
from accord.data.store import Store, trained_corpora
from accord.data.windows import window_count
from accord.errors import AccordError, traced_to
from accord.files import expand
from accord.models.checkpoint import Checkpoint, Checkpoints, checkpoint_state, open_checkpoint
from accord.objectives.build import check_runs
from accord.ops.distributed import World
from accord.progress import Progress
from accord.run_directory import RunDirectory
from accord.training.train_state import TrainState


def hardware(world: World, threads: int, bf16: bool) -> str:
    """What the run computes on, in words."""
    if world.device.type == "cuda":
        where = f"{torch.cuda.get_device_name()}, {'bf16' if bf16 else 'fp32'}"
        where += "; not bit-reproducible: cuDNN and scattered sums add up in varying order"
    else:
        where = f"CPU, {threads} thread{'s' if threads > 1 else ''} (training.threads)"
    return f"{where}, {world.size} processes" if world.size > 1 else where


def identity(
    experiment: Experiment, store: Store, world: World, *, one_direction: bool = False
) -> dict[str, Any]:
    """What a checkpoint's tensors and its position in the data belong to."""
    settings = experiment.training
    windows = window_count(trained_corpora(store.corpora, experiment.graph.supervised))
    return {
        "processes": world.size,
        "optimizer": settings.optimizer.kind,
        "data": {
            "fingerprint": store.manifest["fingerprint"],
            "seed": experiment.training_seed,
            "batch_tokens": settings.batch_tokens,
            "temperature": settings.temperature,
            # Runs from before there were windows had other batches where there are several now.
            **({"windows": windows} if windows > 1 else {}),
            **({"directions": sorted(settings.directions)} if settings.directions else {}),
            **({"one_direction": True} if one_direction else {}),
        },
    }


def resume(
    checkpoints: Checkpoints,
    present: dict[str, Any],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    world: World,
    progress: Progress,
    origin: "Origin | None" = None,
) -> TrainState:
    """Load the newest checkpoint that is whole, if there is one; `present` is our identity.

    A run without checkpoints of its own starts from those of `origin`, if there is one.
    """
    checkpoint = _newest(checkpoints, world, progress)
    if checkpoint is None and origin is not None:
        checkpoint = origin.open(present["data"]["fingerprint"], world)
        progress.note(f"branching off {origin.path} at step {checkpoint.step:,}")
    elif checkpoint is None:
        return TrainState()
    else:
        progress.note(f"resuming from step {checkpoint.step:,}")
    checkpoint.load_model(model)
    if checkpoint.state["optimizer"] == present["optimizer"]:
        new = checkpoint.load_optimizer(model, optimizer)
        if new:
            progress.note(f"the optimiser begins without memory of {new:,} new parameters")
    else:
        progress.note("another optimiser than before: it begins without memory")
    before, now = checkpoint.state.get("processes", world.size), world.size
    if before != now:
        progress.note(
            f"{now} process{'es' * (now > 1)}, but {before} before: each draws its own dropout, so "
            "the weights will not be those of a run that was never interrupted"
        )
    state = TrainState.of(checkpoint)
    if not checkpoint.path.is_relative_to(checkpoints.directory):
        # A branch keeps its own best, by its own validations: the origin's is not in its folder.
        state.best, state.best_step, state.without_best = None, None, 0
        state.objectives = {}  # nor is what they went on from
        state.branched_at = state.seconds
    if checkpoint.state["data"] != present["data"]:
        state.position = Position(state.position.epoch + 1)
        progress.note("other batches than before: continuing with the next epoch")
    return state


@dataclass(frozen=True)
class Origin:
    """The run that training starts from where it has no checkpoint of its own."""

    path: str
    place: str
    """The key that names it (`training.init_from`), as users are told of it."""

    @staticmethod
    def of(experiment: Experiment, named: Naming) -> "Origin | None":
        """What an experiment names, if it does."""
        path = experiment.training.init_from
        return Origin(path, named(("training", "init_from"))) if path else None

    def newest(self, fingerprint: str) -> Path:
        """Its newest checkpoint, if that is of the same data; weights are not read."""
        with traced_to(self.place):
            run = RunDirectory(Path(expand(self.path)))
            paths = Checkpoints(run.checkpoints).paths()
            if not paths:
                run.experiment()  # says so if this is no run at all
                raise AccordError(
                    "there is no checkpoint to start from",
                    where=str(run.path),
                    fix="train it first, or name a run directory that has been trained",
                )
            if checkpoint_state(paths[-1])["data"]["fingerprint"] != fingerprint:
                raise AccordError(
                    "the run was trained on other data, and so has another vocabulary",
                    where=str(run.path),
                    fix="use the store of that run, or start afresh",
                )
            return paths[-1]

    def open(self, fingerprint: str, world: World) -> Checkpoint:
        """The same checkpoint in all processes.

        Branches are matched in updates, so a damaged one is not made do without.
        """
        path = self.newest(fingerprint)
        name = world.share(path.name)
        with traced_to(self.place):
            return open_checkpoint(path.with_name(name))


def check_named_runs(
    run: RunDirectory, experiment: Experiment, store: Store, named: Naming
) -> None:
    """Refuse runs that a new run is to read and cannot, before anything is written.

    Not where a run goes on: it may have read them already, and if not, whoever needs them says so.
    """
    if Checkpoints(run.checkpoints).paths():
        return
    if origin := Origin.of(experiment, named):
        origin.newest(store.manifest["fingerprint"])
    check_runs(experiment, store, named)


def _newest(checkpoints: Checkpoints, world: World, progress: Progress) -> Checkpoint | None:
    """The newest that is whole; those that are not are put aside, and named."""
    found = None
    if world.is_first:
        found, problems = checkpoints.newest()
        for problem in problems:
            progress.note(f"left aside: {problem}")
        if found is not None:
            checkpoints.set_aside(found.step)
    return _shared(found, checkpoints, world)


def _shared(found: Checkpoint | None, all_of: Checkpoints, world: World) -> Checkpoint | None:
    """The first process decides, so that all load the same one."""
    name = world.share(found.path.name if found is not None else "")
    if found is None and name:
        return open_checkpoint(all_of.directory / name)
    return found
