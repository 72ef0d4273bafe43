"""What a process needs before its first update: threads, the model, and where the run stands."""

from typing import Any

import torch

from accord.config.schema import Experiment
from accord.data.batches import Position
from accord.data.store import Store, trained_corpora
from accord.data.windows import window_count
from accord.errors import AccordError
from accord.models.checkpoint import Checkpoint, Checkpoints, open_checkpoint
from accord.ops.distributed import World
from accord.progress import Progress
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
    origin: Checkpoints | None = None,
) -> TrainState:
    """Load the newest checkpoint that is whole, if there is one; `present` is our identity.

    A run without checkpoints of its own starts from those of `origin`, if that is given.
    """
    checkpoint = _newest(checkpoints, world, progress)
    if checkpoint is None and origin is not None:
        checkpoint = _origin(origin, world)
        if checkpoint.state["data"]["fingerprint"] != present["data"]["fingerprint"]:
            raise AccordError(
                "the run to start from was trained on other data, and so has another vocabulary",
                where=f"training.init_from, {origin.directory.parent}",
                fix="use the store of that run, or start afresh",
            )
        progress.note(f"branching off {origin.directory.parent} at step {checkpoint.step:,}")
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


def _origin(origin: Checkpoints, world: World) -> Checkpoint:
    """Branches are matched in updates, so a damaged newest checkpoint is not made do without."""
    found = _shared(origin.last() if world.is_first else None, origin, world)
    if found is None:
        raise AccordError(
            "there is no checkpoint to start from",
            where=f"training.init_from, {origin.directory}",
            fix="name a run directory that has been trained",
        )
    return found


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
