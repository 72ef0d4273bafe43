"""The training loop: batches become updates, updates become checkpoints, and every run resumes.

Re-running the same command continues where the run stopped: the weights, the optimiser, the place
in the data and the random numbers (drawn anew for each step from seed, step and rank) are those of
a run that was never interrupted, bit for bit on a CPU.
"""

import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from accord.config.checks import dotted
from accord.config.load import run_directory, store_directory
from accord.config.schema import Experiment
from accord.config.section import Naming
from accord.data.batches import Batch, BatchStream, Position
from accord.data.prefetch import Prefetcher
from accord.data.store import Store, trained_corpora
from accord.errors import AccordError, AccordWarning
from accord.files import atomic_write, exclusive
from accord.models.build import build_model
from accord.models.checkpoint import Checkpoints
from accord.objectives.base import Cancelled, Context, Objective, Session, Work
from accord.objectives.build import build_objectives
from accord.ops.cuda_graphs import set_seed
from accord.ops.distributed import World, joined_world, use_threads
from accord.progress import Progress, Silent
from accord.run_directory import RunDirectory
from accord.training.begin import begin_run, check_store
from accord.training.display import Display, prospect
from accord.training.loggers import check_loggers
from accord.training.optim import build_optimizer, learning_rate, set_learning_rate
from accord.training.run_log import RunLog
from accord.training.setup import Origin, check_named_runs, hardware, identity, resume
from accord.training.stopping import Clock, End, Result, StopSignals, goal
from accord.training.trial import Trial
from accord.training.update import Updater
from accord.training.validation import Scores, Validator

_ASK_EVERY = 8  # steps between two questions to the other processes whether to stop
_EXCHANGES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_TOLD = End("told to stop", finished=False)
_LOWER = "lower training.optimizer.learning_rate, or use training.precision=fp32"

Ready = tuple[Position, Batch, list[list[Any]]]
"""A batch with what every objective reads of it."""
Build = Callable[[Context], list[Objective[Any]]]


def train(
    experiment: Experiment,
    *,
    accept_changes: bool = False,
    progress: Progress | None = None,
    build: Build = build_objectives,
    estimate: bool = False,
    named: Naming = dotted,
) -> Result:
    """Train, or continue training, the experiment's model; `build` may add further objectives.

    With `estimate` a batch is tried first, to say how long all of it will take. Errors name keys of
    the experiment as `named` does.
    """
    directory = run_directory(experiment)
    check_loggers(experiment)
    with joined_world() as world:
        shown = (progress or Silent()) if world.is_first else Silent()
        if not world.is_first:
            return Trainer(experiment, world, shown, build, named).run()
        shown.reach(0, "opening the store")
        run, store = RunDirectory(directory), Store(store_directory(experiment))
        check_store(store, experiment)
        check_named_runs(run, experiment, store, named)
        with exclusive(directory, "accord train"):
            for change in begin_run(run, experiment, store, accept_changes):
                shown.note(f"changed{change}")
            return Trainer(experiment, world, shown, build, named).run(estimate)


class Trainer:
    """One process's part in training."""

    def __init__(
        self,
        experiment: Experiment,
        world: World,
        progress: Progress,
        build: Build = build_objectives,
        named: Naming = dotted,
    ) -> None:
        self.experiment = experiment
        self.settings = experiment.training
        self.world = world
        self.progress = progress
        self.display = Display(progress, self.settings)
        self.directory = RunDirectory(run_directory(experiment))
        self.checkpoints = Checkpoints(self.directory.checkpoints)
        self.store = Store(store_directory(experiment))
        self.on_gpu = world.device.type == "cuda"
        self.bf16 = self.settings.precision == "bf16" or (
            self.settings.precision == "auto" and self.on_gpu
        )
        progress.note(f"on {hardware(world, use_threads(self.settings.threads), self.bf16)}")
        progress.reach(0, "building the model")
        self.model = build_model(
            experiment.model,
            len(self.store.vocabulary),
            experiment.training_seed,
            len(self.store.languages),
        ).to(world.device)
        self.optimizer = build_optimizer(
            self.settings.optimizer.kind, self.model, learning_rate=self.settings.optimizer.peak
        )
        self.identity = identity(
            experiment, self.store, world, one_direction=self.model.one_direction
        )
        self.state = resume(
            self.checkpoints,
            self.identity,
            self.model,
            self.optimizer,
            world,
            progress,
            origin=Origin.of(experiment, named),
        )
        self.clock = Clock(self.settings, self.state, world)
        context = Context(
            experiment, self.store, world, self.model, self.directory, self.bf16, progress, named
        )
        self.objectives = build(context)
        self.updater = Updater(
            self.model,
            self.optimizer,
            self.objectives,
            clip=self.settings.clip,
            bf16=self.bf16,
            graphs=self.on_gpu,
            world_size=world.size,
            exchange=_EXCHANGES[self.settings.exchange],
        )
        self.stream = BatchStream(
            trained_corpora(self.store.corpora, experiment.graph.supervised),
            self.store.languages,
            self.store.vocabulary.tags,
            batch_tokens=self.settings.batch_tokens,
            seed=experiment.training_seed,
            temperature=self.settings.temperature,
            rank=world.rank,
            world_size=world.size,
            one_direction=self.model.one_direction,
        )
        if self.stream.windows > 1:
            progress.note(
                f"an epoch has {self.stream.windows:,} windows, and an estimated "
                f"{self.stream.estimated_batches():,} updates"
            )
        self.trial = Trial(self.updater, len(self.store.vocabulary), progress)
        self.cut = self.trial.cut(self.stream.largest_shapes(), self.settings.accumulation)
        self.validator = Validator(self.store, experiment, world.device, self.bf16)
        self.state.measure_by(self.validator.measures)
        self.log = RunLog(world, self.state, self.objectives, self.stream, progress, self.display)
        self.signals = StopSignals(progress)
        self.scores: Scores | None = None
        self._prepared = self.step  # steps whose batches the background has made ready
        self._begin_objectives()

    def _begin_objectives(self) -> None:
        session = Session(
            self.cut, self.log.write, lambda: bool(self.signals.received), self.clock.latest_step
        )
        for objective in self.objectives:
            if objective.name in self.state.objectives:
                known = self.state.objectives[objective.name]
                objective.restore(known, self.checkpoints.path(self.step))
            objective.begin(session)

    # --- the loop --------------------------------------------------------------------------

    def run(self, estimate: bool = False) -> Result:
        """Train until something says stop; whatever it is, the last state is saved."""
        self.log.open(self.experiment, self.directory)
        self.stream.seek(self.state.position)
        if self.world.is_first:
            self._say_what_is_to_come(estimate)
        self.display.begin(self.step, self.clock.limit)
        try:
            with (
                self.signals,
                Prefetcher(iter(self.stream), transform=self._tensors) as batches,
            ):
                end = goal(self.settings, self.state) or self._request()
                while end is None:
                    end = self._advance(batches)
            # The first process says whether: others may look while it is still writing.
            if self.step and self.world.any(self.world.is_first and not self.checkpoints.paths()):
                self._save()  # a branch with nothing left to do is still a run of its own
        except Exception as error:
            for objective in self.objectives:
                objective.explain(error)
            raise
        finally:
            for objective in self.objectives:
                objective.close()
            self.log.close()
        told_by = 0 if end.finished else self.signals.received
        return Result(
            self.directory.path, self.step, end.reason, end.finished, self.scores, told_by
        )

    def _say_what_is_to_come(self, estimate: bool) -> None:
        settings = self.settings
        if self.step >= settings.steps and not self.checkpoints.paths():
            warnings.warn(
                f"no update is left to do: this is step {self.step:,}, and training.steps, "
                f"{settings.steps:,}, counts those of {settings.init_from} as well",
                AccordWarning,
                stacklevel=2,
            )
        said = prospect(
            self.experiment,
            parameters=sum(p.numel() for p in self.model.parameters() if p.requires_grad),
            per_epoch=self._updates_per_epoch(),
            done=self.step,
            seconds=self.state.seconds,
            limit=self.clock.limit,
            per_update=self._seconds_per_update() if estimate else None,
            on_cpu=not self.on_gpu,
        )
        for sentence in said:
            self.progress.note(sentence)

    def _seconds_per_update(self) -> float:
        """Of the run so far or, at its beginning, by a batch that is only tried."""
        if self.step and self.state.seconds:
            return self.state.seconds / self.step
        return self.trial.seconds_per_update(self.cut, self.step + 1)

    def _updates_per_epoch(self) -> int:
        """Counted, or estimated where each of many windows would have to be planned for it."""
        if self.stream.windows > 1:
            return self.stream.estimated_batches()
        return self.stream.batches_per_epoch(self.state.position.epoch)

    @property
    def step(self) -> int:
        """Updates done so far."""
        return self.state.step

    def _tensors(self, item: tuple[Position, Batch]) -> Ready:
        """Runs in the background: what the objectives will need of a batch."""
        position, batch = item
        self._prepared += 1
        step = self._prepared
        found = [
            each.inputs(step, position, batch, self.cut) if each.weight(step) else []
            for each in self.objectives
        ]
        return position, batch, found

    def _advance(self, batches: Prefetcher[Ready]) -> End | None:
        """One update and what is to be written after it, unless somebody says stop before it."""
        try:
            self._next_update(batches)
        except Cancelled:  # while waiting for a round of the pool
            saved = self.checkpoints.path(self.step).exists()
            if self.step and not self.world.share("saved" if saved else ""):
                self._save()
            return _TOLD
        return self._write_what_is_due(goal(self.settings, self.state) or self._request())

    def _next_update(self, batches: Prefetcher[Ready]) -> None:
        """One update, timed."""
        start, waited = time.perf_counter(), batches.wait_seconds
        position, batch, inputs = next(batches)
        work = self._update(batch, inputs)
        self.state.position = position
        seconds = time.perf_counter() - start
        self.state.seconds += seconds
        self.log.took(seconds, batches.wait_seconds - waited, work)

    def _scheduled(self, step: int) -> float:
        """The learning rate of an update that is about to be made."""
        settings = self.settings.optimizer
        return learning_rate(
            step,
            settings.shape,
            peak=settings.peak * self.clock.rate,
            warmup=settings.warmup,
            steps_left=self.settings.steps - step + 1,
            decay=settings.decay,
        )

    def _update(self, batch: Batch, inputs: list[list[Any]]) -> list[Work[Any]]:
        step = self.step + 1
        work = [
            each.work(step, batch, mine) if each.weight(step) else Work()
            for each, mine in zip(self.objectives, inputs, strict=True)
        ]
        rate = self._scheduled(step)
        set_learning_rate(self.optimizer, rate)
        set_seed(_step_seed(self.experiment.training_seed, step, self.world.rank))
        outcome = self.updater.update(work, batch.update_target_tokens)
        for objective in self.objectives:
            objective.updated()
        self.state.step = step
        self.log.add(batch, work, outcome, rate)
        if outcome.applied:
            self.state.bad_in_a_row = 0
        else:
            self._bad_step()
        return work

    def _bad_step(self) -> None:
        self.state.skipped += 1
        self.state.bad_in_a_row += 1
        self.progress.note(f"step {self.step:,}: loss or gradient is not finite; step left out")
        if self.state.bad_in_a_row < self.settings.bad_steps:
            return
        path = self.directory.path / f"bad-batch-{self.step}.npz"
        if self.world.is_first:
            whole = self.stream.batch_at(self.state.position, rank=0, world_size=1)
            with atomic_write(path, "wb") as out:
                np.savez_compressed(out, **vars(whole))
        self.world.share("")  # the first process to fail ends all: not before this is written
        raise AccordError(
            f"{self.state.bad_in_a_row} updates in a row had a loss or gradient that is not finite",
            where=f"{self.directory.path}, step {self.step}",
            fix=f"the last good checkpoint is kept, the batch is in {path.name}; {_LOWER}",
        )

    def _request(self) -> End | None:
        """Whether time is up or a signal came in any process."""
        if self.step % (_ASK_EVERY if self.world.size > 1 else 1):
            return None
        if self.clock.agree():
            return End(self.clock.reason)
        if self.world.any(bool(self.signals.received)):
            return _TOLD
        return None

    # --- what is written -------------------------------------------------------------------

    def _write_what_is_due(self, end: End | None) -> End | None:
        """Log, validate, save, in this order: a checkpoint holds all that happened until it."""
        settings, better = self.settings, False
        if self.step % settings.log_every == 0:
            self.log.write_updates()
        if self.step % settings.validation.every == 0 or (end is not None and end.finished):
            better = self._validate()
            end = end or goal(settings, self.state)
        if end is not None and end.finished and self.state.totals.steps:
            self.log.write_updates()
        if end is not None or better or self.step % settings.save_every == 0:
            self._save()
        return end

    def _validate(self) -> bool:
        """The first process measures; the others wait and hear whether it was the best."""
        if not self.validator.sets:
            return False
        text = ""
        if self.world.is_first:
            self.display.validating(self.step)
            self.scores = self.validator(self.model)
            self.log.write("validation", self.step, self.scores.as_dict())
            text = json.dumps(self.scores.quality(self.settings.validation.metric))
        best = self.state.judge(float(json.loads(self.world.share(text))))
        if self.world.is_first and self.scores is not None:
            self.display.validated(self.step, self.state.seconds, self.scores, best)
        return best

    def _save(self) -> None:
        self.log.fold()
        if not all(bool(p.isfinite().all()) for p in self.model.parameters()):
            raise AccordError(
                "the weights are not finite any more",
                where=f"{self.directory.path}, step {self.step}",
                fix=f"the last good checkpoint is kept; {_LOWER}",
            )
        if not self.world.is_first:
            return
        self.log.sync()
        states = {each.name: each.state() for each in self.objectives}
        self.state.objectives = {name: state for name, state in states.items() if state is not None}
        tensors = {name: kept for each in self.objectives for name, kept in each.tensors().items()}
        known = self.state.as_dict() | self.identity
        self.checkpoints.save(self.step, self.model, self.optimizer, known, tensors)
        self.checkpoints.prune(self.settings.keep, self.state.best_step)
        for objective in self.objectives:
            objective.saved()


def _step_seed(seed: int, step: int, rank: int) -> int:
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)
