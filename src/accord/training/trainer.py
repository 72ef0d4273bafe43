"""The training loop: batches become updates, updates become checkpoints, and every run resumes.

Re-running the same command continues where the run stopped: the weights, the optimiser, the place
in the data and the random numbers (drawn anew for each step from seed, step and rank) are those of
a run that was never interrupted, bit for bit on a CPU.
"""

import json
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from accord.config.load import run_directory, store_directory
from accord.config.schema import Experiment
from accord.data.batches import Batch, BatchStream, Position
from accord.data.prefetch import Prefetcher
from accord.data.store import Store
from accord.errors import AccordError
from accord.files import atomic_write, exclusive, expand
from accord.models.build import build_model
from accord.models.tensor_batch import TensorBatch, fitting_shape
from accord.objectives.agreement.inputs import NONE
from accord.objectives.agreement.loss import degenerate
from accord.objectives.agreement.objective import agreeing_of
from accord.objectives.distillation.objective import Completing
from accord.objectives.distillation.teacher import Cancelled
from accord.ops.cuda_graphs import set_seed
from accord.ops.distributed import World, joined_world
from accord.progress import Progress, Silent
from accord.training.checkpoint import Checkpoints
from accord.training.gradients import MicroBatch
from accord.training.logging import MetricsLog, Window, clock, progress_line
from accord.training.optim import build_optimizer, learning_rate, set_learning_rate
from accord.training.run import RunDirectory, check_store
from accord.training.setup import (
    hardware,
    identity,
    parts_that_fit,
    resume,
    use_threads,
)
from accord.training.update import Updater
from accord.training.validation import Scores, Validator

# --- When training ends, and who says so.


@dataclass(frozen=True)
class End:
    """Why training ends here; a run that was only told to stop is not finished."""

    reason: str
    finished: bool = True


class StopSignals:
    """Ctrl-C and SIGTERM ask training to end after the current step; a second one ends it at once.

    As a context manager it listens; before and after, signals do what they did.
    """

    def __init__(self, progress: Progress) -> None:
        self.received = False
        self._progress = progress
        self._before: dict[int, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._before:
            self._restore(number)

    def _restore(self, number: int) -> None:
        signal.signal(number, self._before[number])

    def _stop(self, number: int, _: object) -> None:
        self.received = True
        self._restore(number)
        with suppress(RuntimeError):  # the signal came in the middle of another message
            self._progress.note("stopping after this step; once more stops at once, unsaved")


_ASK_EVERY = 8  # steps between two questions to the other processes whether to stop
_TOLD = End("told to stop", finished=False)
_LOWER = "lower training.optimizer.learning_rate, or use training.precision=fp32"

Ready = tuple[Position, Batch, list[MicroBatch]]


@dataclass(frozen=True)
class Result:
    """How a call of `train` ended: at its goal, by patience, by time, or because it was told to."""

    run: Path
    step: int
    reason: str
    finished: bool
    scores: Scores | None


def train(
    experiment: Experiment, *, accept_changes: bool = False, progress: Progress | None = None
) -> Result:
    """Train, or continue training, the experiment's model."""
    directory = run_directory(experiment)
    with joined_world() as world:
        shown = (progress or Silent()) if world.is_first else Silent()
        if not world.is_first:
            return Trainer(experiment, world, shown).run()
        with exclusive(directory, "accord train"):
            store = Store(store_directory(experiment))
            check_store(store, experiment)
            for change in RunDirectory(directory).begin(experiment, store, accept_changes):
                shown.note(f"changed{change}")
            return Trainer(experiment, world, shown).run()


class Trainer:
    """One process's part in training."""

    def __init__(self, experiment: Experiment, world: World, progress: Progress) -> None:
        self.experiment = experiment
        self.settings = experiment.training
        self.world = world
        self.progress = progress
        self.directory = RunDirectory(run_directory(experiment))
        self.store = Store(store_directory(experiment))
        self.on_gpu = world.device.type == "cuda"
        self.bf16 = self.settings.precision == "bf16" or (
            self.settings.precision == "auto" and self.on_gpu
        )
        progress.note(f"on {hardware(world, use_threads(self.settings.threads), self.bf16)}")
        self.model = build_model(
            experiment.model, len(self.store.vocabulary), experiment.training_seed
        ).to(world.device)
        self.optimizer = build_optimizer(
            self.settings.optimizer.kind, self.model, learning_rate=self.settings.optimizer.peak
        )
        self.identity = identity(experiment, self.store)
        self.standing = resume(
            self.directory.checkpoints,
            self.identity,
            self.model,
            self.optimizer,
            world,
            progress,
            origin=self._origin(),
        )
        self.agreeing = agreeing_of(experiment, self.store, world)
        consistency = experiment.objective.consistency
        self.consistency = consistency if consistency and consistency.weight else None
        self.updater = Updater(
            self.model,
            self.optimizer,
            label_smoothing=self.settings.label_smoothing,
            clip=self.settings.clip,
            bf16=self.bf16,
            graphs=self.on_gpu,
            world_size=world.size,
            agreement=self.agreeing.settings if self.agreeing else None,
            consistency=self.consistency,
        )
        self.stream = BatchStream(
            self.store.corpora,
            self.store.languages,
            self.store.vocabulary.tags,
            batch_tokens=self.settings.batch_tokens,
            seed=experiment.training_seed,
            temperature=self.settings.temperature,
            rank=world.rank,
            world_size=world.size,
        )
        self.parts = self._parts()
        self.shapes = [
            (-(-rows // self.parts), length) for rows, length in self.stream.largest_shapes()
        ]
        self.validator = Validator(self.store, experiment, world.device, self.bf16)
        self.standing.measure_by(
            f"{self.settings.validation.metric} over {self.settings.validation.directions} "
            f"directions of {self.store.manifest['fingerprint']}"
        )
        self.completing: Completing | None = None
        complete = experiment.objective.complete
        if complete is not None and complete.weight:
            self.completing = Completing(
                experiment,
                complete,
                self.store,
                world,
                self.model,
                self.directory,
                self.standing.complete,
                bf16=self.bf16,
                shapes=self.shapes,
                progress=progress,
                say=lambda step, values: self.log.write("pool", step, values) if self.log else None,
                told=lambda: self.signals.received,
            )
        self.window = Window(world, self.standing.totals)
        self.signals = StopSignals(progress)
        self.scores: Scores | None = None
        self.log: MetricsLog | None = None
        self._warned = False
        self._prepared = self.step  # steps whose batches the background has made ready

    def _origin(self) -> Checkpoints | None:
        path = self.settings.init_from
        return RunDirectory(Path(expand(path))).checkpoints if path else None

    def _parts(self) -> int:
        if not self.on_gpu:
            return self.settings.accumulation
        parts = parts_that_fit(
            lambda batch, shape: self.updater.accumulate([self._trial(batch, shape)]),
            self.stream.largest_shapes(),
            len(self.store.vocabulary),
            self.settings.accumulation,
        )
        if parts != self.settings.accumulation:
            self.progress.note(f"the largest batch does not fit at once: split into {parts} parts")
        return parts

    def _trial(self, batch: Batch, shape: tuple[int, int]) -> MicroBatch:
        pairs = TensorBatch.of_shape(batch, *shape)
        inputs = None
        if self.agreeing is not None:
            none = np.full(batch.rows, NONE, dtype=np.int16)
            inputs = self.agreeing.inputs(batch, none, shape)
        return MicroBatch(pairs, inputs, self.consistency is not None)

    # --- the loop --------------------------------------------------------------------------

    def run(self) -> Result:
        """Train until something says stop; whatever it is, the last state is saved."""
        if self.world.is_first:
            board = self.directory.path / "tensorboard"
            self.log = MetricsLog(self.directory.metrics, board, self.step)
        self.stream.seek(self.standing.position)
        self.progress.start("training", self.settings.steps)
        self.progress.reach(self.step)
        try:
            with (
                self.signals,
                Prefetcher(iter(self.stream), transform=self._tensors) as batches,
            ):
                end = self._goal() or self._request()
                while end is None:
                    end = self._advance(batches)
            if self.step and not self.directory.checkpoints.paths():
                self._save()  # a branch with nothing left to do is still a run of its own
        except Exception as error:
            if self.completing is not None:
                self.completing.explain(error)
            raise
        finally:
            if self.completing is not None:
                self.completing.close()
            if self.log is not None:
                self.log.close()
        return Result(self.directory.path, self.step, end.reason, end.finished, self.scores)

    @property
    def step(self) -> int:
        """Updates done so far."""
        return self.standing.step

    def _tensors(self, item: tuple[Position, Batch]) -> Ready:
        """Runs in the background: what the device will need of a batch."""
        position, batch = item
        self._prepared += 1
        drawn_B = None
        if self.agreeing is not None and self.agreeing.is_on(self._prepared):
            drawn_B = self.agreeing.draw(batch, position)
        consistent = self.consistency is not None and self._prepared > self.consistency.start
        ready = []
        for k in range(self.parts):
            part = batch.part(k, self.parts)
            shape = fitting_shape(part, self.shapes) if self.on_gpu else None
            pairs = TensorBatch.of_shape(part, *shape) if shape else TensorBatch.from_numpy(part)
            inputs = None
            if self.agreeing is not None and drawn_B is not None:
                inputs = self.agreeing.inputs(part, drawn_B[k :: self.parts], shape)
            ready.append(MicroBatch(pairs, inputs, consistent))
        return position, batch, ready

    def _advance(self, batches: Prefetcher[Ready]) -> End | None:
        """One update and what is to be written after it, unless somebody says stop before it."""
        try:
            self._next_update(batches)
        except Cancelled:  # while waiting for a round of the pool
            saved = self.directory.checkpoints.path(self.step).exists()
            if self.step and not self.world.share("saved" if saved else ""):
                self._save()
            return _TOLD
        return self._write_what_is_due(self._goal() or self._request())

    def _next_update(self, batches: Prefetcher[Ready]) -> None:
        """One update, timed."""
        start, waited = time.perf_counter(), batches.wait_seconds
        position, batch, tensors = next(batches)
        self._update(batch, tensors)
        self.standing.position = position
        seconds = time.perf_counter() - start
        self.standing.seconds += seconds
        late = self.completing.waited if self.completing is not None else 0.0
        self.window.took(seconds, batches.wait_seconds - waited, late)

    def _rate(self, step: int) -> float:
        settings = self.settings.optimizer
        return learning_rate(step, settings.shape, peak=settings.peak, warmup=settings.warmup)

    def _update(self, batch: Batch, tensors: list[MicroBatch]) -> None:
        step = self.step + 1
        synthetic = self.completing.next(step) if self.completing is not None else None
        set_learning_rate(self.optimizer, self._rate(step))
        set_seed(_step_seed(self.experiment.training_seed, step, self.world.rank))
        weights = self.agreeing.weights(step) if self.agreeing else (0.0, 0.0)
        outcome = self.updater.update(
            tensors, batch.update_target_tokens, batch.update_rows, weights, synthetic
        )
        if self.completing is not None:
            self.completing.follow()
        self.standing.step = step
        self.window.add(batch, outcome, synthetic.tokens if synthetic is not None else 0)
        if outcome.applied:
            self.standing.bad_in_a_row = 0
        else:
            self._bad_step()

    def _bad_step(self) -> None:
        self.standing.skipped += 1
        self.standing.bad_in_a_row += 1
        self.progress.note(f"step {self.step:,}: loss or gradient is not finite; step left out")
        if self.standing.bad_in_a_row < self.settings.bad_steps:
            return
        path = self.directory.path / f"bad-batch-{self.step}.npz"
        if self.world.is_first:
            whole = self.stream.batch_at(self.standing.position, rank=0, world_size=1)
            with atomic_write(path, "wb") as out:
                np.savez_compressed(out, **vars(whole))
        self.world.share("")  # the first process to fail ends all: not before this is written
        raise AccordError(
            f"{self.standing.bad_in_a_row} updates in a row had a loss or gradient that is not "
            "finite",
            where=f"{self.directory.path}, step {self.step}",
            fix=f"the last good checkpoint is kept, the batch is in {path.name}; {_LOWER}",
        )

    def _goal(self) -> End | None:
        """Whether the run has come to its end; every process finds the same."""
        if self.step >= self.settings.steps:
            return End(f"{self.settings.steps:,} steps done")
        patience = self.settings.validation.patience
        if patience is not None and self.standing.without_best >= patience:
            return End(f"no better for {patience} validations")
        return None

    def _request(self) -> End | None:
        """Whether time is up or a signal came in any process."""
        if self.step % (_ASK_EVERY if self.world.size > 1 else 1):
            return None
        minutes = self.settings.minutes
        late = minutes is not None and self.standing.seconds >= 60 * minutes
        if self.world.any(late):
            return End(f"{minutes:g} minutes are over")
        if self.world.any(self.signals.received):
            return _TOLD
        return None

    # --- what is written -------------------------------------------------------------------

    def _write_what_is_due(self, end: End | None) -> End | None:
        """Log, validate, save, in this order: a checkpoint holds all that happened until it."""
        settings, better = self.settings, False
        if self.step % settings.log_every == 0:
            self._log()
        if self.step % settings.validation.every == 0 or (end is not None and end.finished):
            better = self._validate()
            end = end or self._goal()
        if end is not None and end.finished and self.standing.totals.steps:
            self._log()
        if end is not None or better or self.step % settings.save_every == 0:
            self._save()
        return end

    def _log(self) -> None:
        self.window.fold()
        totals = self.standing.totals
        values = {
            **totals.summary(),
            "lr": self._rate(self.step),
            "epoch": self.stream.epochs(self.standing.position),
            "skipped": self.standing.skipped,
            "training_seconds": self.standing.seconds,
        }
        if self.log is not None:
            self.log.write("train", self.step, values)
        self._warn(degenerate(values))
        left = (self.settings.steps - self.step) * totals.seconds / totals.steps
        if self.settings.minutes is not None:
            left = min(left, 60 * self.settings.minutes - self.standing.seconds)
        self.progress.reach(self.step, f"{progress_line(values)} left {clock(left)}")
        totals.clear()

    def _warn(self, problem: str | None) -> None:
        """Say what is wrong with agreement, when it begins."""
        if problem is not None and not self._warned:
            self.progress.note(
                f"step {self.step:,}: {problem}; watch the zero-shot scores, try "
                "objective.agreement.measure=kl, decoding=hard or a smaller weight"
            )
        self._warned = problem is not None

    def _validate(self) -> bool:
        """The first process measures; the others wait and hear whether it was the best."""
        if not self.validator.sets:
            return False
        text = ""
        if self.world.is_first:
            self.scores = self.validator(self.model)
            if self.log is not None:
                self.log.write("validation", self.step, self.scores.as_dict())
            self.progress.note(self._sentence(self.scores))
            text = json.dumps(self.scores.quality(self.settings.validation.metric))
        return self.standing.judge(float(json.loads(self.world.share(text))))

    def _sentence(self, scores: Scores) -> str:
        parts = [f"step {self.step:,}: dev cross-entropy {scores.cross_entropy:.3f}"]
        if scores.bleu is not None and scores.exact is not None:
            parts.append(f"BLEU {scores.bleu:.1f}, exact {scores.exact:.0%}")
        said = ", ".join(parts) + f" ({self.settings.validation.directions} directions)"
        return said if scores.agreement is None else f"{said}, agreement {scores.agreement:.1f}"

    def _save(self) -> None:
        self.window.fold()
        if not all(bool(p.isfinite().all()) for p in self.model.parameters()):
            raise AccordError(
                "the weights are not finite any more",
                where=f"{self.directory.path}, step {self.step}",
                fix=f"the last good checkpoint is kept; {_LOWER}",
            )
        if self.log is None:
            return
        self.log.sync()
        state = self.standing.as_dict() | self.identity
        checkpoints = self.directory.checkpoints
        more = self.completing.saved() if self.completing is not None else None
        checkpoints.save(self.step, self.model, self.optimizer, state, more)
        checkpoints.prune(self.settings.keep, self.standing.best_step)
        if self.completing is not None:
            self.completing.prune()


def _step_seed(seed: int, step: int, rank: int) -> int:
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)
