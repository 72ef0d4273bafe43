"""The training loop: batches become updates, updates become checkpoints, and every run resumes.

Re-running the same command continues where the run stopped: the weights, the optimiser, the place
in the data and the random numbers (drawn anew for each step from seed, step and rank) are those of
a run that was never interrupted, bit for bit on a CPU.
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from accord.config import Experiment
from accord.corpus.batches import Batch, BatchStream, Position
from accord.corpus.prefetch import Prefetcher
from accord.corpus.store import Store
from accord.errors import AccordError
from accord.experiment_file import run_directory, store_directory
from accord.files import exclusive, writing_errors
from accord.machine import cores
from accord.model.gnmt import GNMT
from accord.model.tensors import TensorBatch, fitting_shape
from accord.progress import Progress, Silent
from accord.training.distributed import World, joined_world
from accord.training.memory import parts_that_fit
from accord.training.metrics import MetricsLog, Window
from accord.training.optimizer import build_optimizer, set_learning_rate
from accord.training.run import RunDirectory, check_store
from accord.training.schedule import learning_rate
from accord.training.standing import Standing
from accord.training.update import Updater
from accord.training.validation import Scores, Validator

_ASK_EVERY = 8  # steps between two questions to the other processes whether to stop


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
            RunDirectory(directory).begin(experiment, store, accept_changes)
            return Trainer(experiment, world, shown).run()


def use_threads(wanted: int | None) -> int:
    """Set the number of CPU threads; by default half of the cores, at most 8.

    Idle threads of OpenMP spin: on a machine that is doing something else, as many threads as
    cores ran 25 times slower than one. Half is safe, and the same on every run of a machine.
    """
    threads = wanted or max(1, min(8, cores() // 2))
    torch.set_num_threads(threads)
    return threads


def build_model(experiment: Experiment, vocabulary_size: int) -> GNMT:
    """The experiment's model, with weights drawn from its seed."""
    torch.manual_seed(experiment.seed)
    settings = experiment.model
    return GNMT(
        vocabulary_size,
        settings.units,
        settings.preset,
        settings.encoder_layers,
        settings.decoder_layers,
        settings.dropout,
        settings.input_feeding,
    )


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
        threads = use_threads(self.settings.threads)
        self._say_set_up(threads)
        self.model = build_model(experiment, len(self.store.vocabulary)).to(world.device)
        self.optimizer = build_optimizer(
            self.settings.optimizer.kind,
            self.model,
            learning_rate=self.settings.optimizer.peak,
        )
        self.standing = self._resume()
        self.updater = Updater(
            self.model,
            self.optimizer,
            label_smoothing=self.settings.label_smoothing,
            clip=self.settings.clip,
            bf16=self.bf16,
            graphs=self.on_gpu,
            world_size=world.size,
        )
        self.stream = BatchStream(
            self.store.corpora,
            self.store.languages,
            self.store.vocabulary.tags,
            batch_tokens=self.settings.batch_tokens,
            seed=experiment.seed,
            temperature=self.settings.temperature,
            rank=world.rank,
            world_size=world.size,
        )
        self.parts = self._parts()
        self.shapes = [
            (-(-rows // self.parts), length) for rows, length in self.stream.largest_shapes()
        ]
        self.validator = Validator(self.store, experiment, world.device, self.bf16)
        self.scores: Scores | None = None
        self.stop_signal: int | None = None
        self.bad_in_a_row = 0

    # --- setting up ------------------------------------------------------------------------

    def _say_set_up(self, threads: int) -> None:
        if self.on_gpu:
            where = f"{torch.cuda.get_device_name()}, {'bf16' if self.bf16 else 'fp32'}"
            where += "; not bit-reproducible: cuDNN and scattered sums add up in varying order"
        else:
            where = f"CPU, {threads} thread{'s' if threads > 1 else ''} (training.threads)"
        processes = f", {self.world.size} processes" if self.world.size > 1 else ""
        self.progress.note(f"on {where}{processes}")

    def _resume(self) -> Standing:
        checkpoint, problems = self.directory.checkpoints.newest()
        for problem in problems:
            self.progress.note(f"left aside: {problem}")
        if checkpoint is None:
            return Standing()
        checkpoint.load_model(self.model)
        checkpoint.load_optimizer(self.model, self.optimizer)
        self.progress.note(f"resuming from step {checkpoint.step:,}")
        return Standing.of(checkpoint)

    def _parts(self) -> int:
        if not self.on_gpu:
            return self.settings.accumulation
        parts = parts_that_fit(
            lambda batch: self.updater.accumulate([batch]),
            self.stream.largest_shapes(),
            len(self.store.vocabulary),
            self.settings.accumulation,
        )
        if parts != self.settings.accumulation:
            self.progress.note(f"the largest batch does not fit at once: split into {parts} parts")
        return parts

    # --- the loop --------------------------------------------------------------------------

    def run(self) -> Result:
        """Train until something says stop; whatever it is, the last state is saved."""
        first = self.world.is_first
        log = (
            MetricsLog(self.directory.metrics, self.directory.path / "tensorboard", self.step)
            if first
            else None
        )
        self.stream.seek(self.standing.position)
        self.progress.start("training", self.settings.steps)
        self.progress.reach(self.step)
        try:
            with (
                self._signals(),
                Prefetcher(iter(self.stream), transform=self._tensors) as batches,
            ):
                reason = self._loop(batches, log)
        finally:
            if log is not None:
                log.close()
        finished = self.stop_signal is None
        return Result(self.directory.path, self.step, reason, finished, self.scores)

    @property
    def step(self) -> int:
        """Updates done so far."""
        return self.standing.step

    def _loop(
        self,
        batches: "Prefetcher[tuple[Position, Batch, list[TensorBatch]]]",
        log: MetricsLog | None,
    ) -> str:
        window = Window(batches)
        saved = self.step
        while (reason := self._reason_to_stop()) is None:
            start = time.perf_counter()
            position, batch, tensors = next(batches)
            self._update(batch, tensors, window)
            self.standing.position = position
            self.standing.seconds += time.perf_counter() - start
            if self.step % self.settings.log_every == 0:
                self._log(window, log)
                window = Window(batches)
            if self.step % self.settings.validation.every == 0:
                self._validate(log)
                window.pause()
            if self.step % self.settings.save_every == 0:
                self._save()
                saved = self.step
                window.pause()
        if self.stop_signal is None and self.step % self.settings.validation.every:
            self._validate(log)
        if saved != self.step:
            self._save()
        return reason

    def _tensors(self, item: tuple[Position, Batch]) -> tuple[Position, Batch, list[TensorBatch]]:
        """Runs in the background: what the device will need of a batch."""
        position, batch = item
        parts = [batch.part(k, self.parts) for k in range(self.parts)]
        if self.on_gpu:
            return position, batch, [
                TensorBatch.of_shape(part, *fitting_shape(part, self.shapes)) for part in parts
            ]  # fmt: skip
        return position, batch, [TensorBatch.from_numpy(part) for part in parts]

    def _update(self, batch: Batch, tensors: list[TensorBatch], window: Window) -> None:
        step = self.step + 1
        settings = self.settings.optimizer
        rate = learning_rate(step, settings.shape, peak=settings.peak, warmup=settings.warmup)
        set_learning_rate(self.optimizer, rate)
        torch.manual_seed(_step_seed(self.experiment.seed, step, self.world.rank))
        outcome = self.updater.update(tensors, batch.update_target_tokens)
        self.standing.step = step
        window.add(batch, outcome, rate)
        if outcome.applied:
            self.bad_in_a_row = 0
        else:
            self._bad_step(batch)

    def _bad_step(self, batch: Batch) -> None:
        self.standing.skipped += 1
        self.bad_in_a_row += 1
        self.progress.note(f"step {self.step:,}: the gradient is not finite; step left out")
        if self.bad_in_a_row < self.settings.bad_steps:
            return
        path = self.directory.path / f"bad-batch-{self.step}-rank-{self.world.rank}.npz"
        with writing_errors(path):
            np.savez_compressed(path, **vars(batch))
        raise AccordError(
            f"{self.bad_in_a_row} updates in a row had a gradient that is not finite",
            where=f"{self.directory.path}, step {self.step}",
            fix=f"the last good checkpoint is kept, the batch is in {path.name}; lower "
            "training.optimizer.learning_rate, or use training.precision=fp32",
        )

    def _reason_to_stop(self) -> str | None:
        settings = self.settings
        if self.step >= settings.steps:
            return f"{settings.steps:,} steps done"
        patience = settings.validation.patience
        if patience is not None and self.standing.without_best >= patience:
            return f"no better for {patience} validations"
        if self.step % (_ASK_EVERY if self.world.size > 1 else 1):
            return None
        late = settings.minutes is not None and self.standing.seconds >= 60 * settings.minutes
        if self.world.any(late):
            return f"{settings.minutes:g} minutes are over"
        if self.world.any(self.stop_signal is not None):
            self.stop_signal = self.stop_signal or signal.SIGTERM
            return "told to stop"
        return None

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end training after the current step; a second one ends it at once."""

        def stop(number: int, _: object) -> None:
            self.stop_signal = number
            signal.signal(number, before[number])
            self.progress.note("stopping after this step; once more stops at once, unsaved")

        before = {int(n): signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # --- what is written -------------------------------------------------------------------

    def _log(self, window: Window, log: MetricsLog | None) -> None:
        values = window.summary(self.world) | {
            "epoch": self.stream.epochs(self.standing.position),
            "skipped": self.standing.skipped,
            "training_seconds": self.standing.seconds,
        }
        if log is not None:
            log.write("train", self.step, values)
        left = (self.settings.steps - self.step) * values["seconds"] / window.steps
        if self.settings.minutes is not None:
            left = min(left, 60 * self.settings.minutes - self.standing.seconds)
        self.progress.reach(
            self.step,
            f"loss {values['loss']:.3f} ppl {values['perplexity']:.1f} lr {values['lr']:.2g} "
            f"src {values['source_tokens_per_s']:,.0f}/s tgt {values['target_tokens_per_s']:,.0f}/s"
            f" wait {values['wait_share']:.0%} left {_clock(left)}",
        )

    def _validate(self, log: MetricsLog | None) -> None:
        """The first process measures; the others wait and hear what came of it."""
        if not self.validator.sets:
            return
        text = ""
        if self.world.is_first:
            self.scores = self.validator(self.model)
            values = self.scores.as_dict()
            if log is not None:
                log.write("validation", self.step, values)
            self.progress.note(self._sentence(self.scores))
            by_bleu = self.settings.validation.metric == "bleu" and self.scores.bleu is not None
            text = json.dumps(self.scores.bleu if by_bleu else -self.scores.cross_entropy)
        value = float(json.loads(self.world.share(text)))
        if self.standing.best is None or value > self.standing.best:
            self.standing.best, self.standing.best_step = value, self.step
            self.standing.without_best = 0
            if self.step % self.settings.save_every:
                self._save()  # the best must be on disk, whatever the rhythm of saving
        else:
            self.standing.without_best += 1

    def _sentence(self, scores: Scores) -> str:
        parts = [f"step {self.step:,}: dev cross-entropy {scores.cross_entropy:.3f}"]
        if scores.bleu is not None and scores.exact is not None:
            parts.append(f"BLEU {scores.bleu:.1f}, exact {scores.exact:.0%}")
        return ", ".join(parts) + f" ({self.settings.validation.directions} directions)"

    def _save(self) -> None:
        if not self.world.is_first:
            return
        checkpoints = self.directory.checkpoints
        checkpoints.save(self.step, self.model, self.optimizer, self.standing.as_dict())
        checkpoints.prune(self.settings.keep, self.standing.best_step)


def _step_seed(seed: int, step: int, rank: int) -> int:
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
