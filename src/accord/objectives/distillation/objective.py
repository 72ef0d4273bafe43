"""Synthetic pairs beside the gold ones: when they are on, what they weigh, where they stand."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.config.objectives import CompleteConfig
from accord.config.schema import Experiment
from accord.config.third_languages import Triads
from accord.data.batches import Batch, BatchStream, Position
from accord.data.prefetch import Prefetcher
from accord.data.store import Store
from accord.models.gnmt import GNMT
from accord.models.tensor_batch import TensorBatch
from accord.objectives.distillation.background import Worker
from accord.objectives.distillation.filters import KEPT, Filters, usual_lengths
from accord.objectives.distillation.pool import Pool, PoolState, prune_rounds
from accord.objectives.distillation.rounds import Round, RoundMaker
from accord.objectives.distillation.sampling import Picker
from accord.objectives.distillation.soft_targets import LikelyTargets, Targets
from accord.objectives.distillation.teacher_weights import Teaching
from accord.ops.distributed import World
from accord.ops.linear_cross_entropy import Likely
from accord.progress import Progress
from accord.training.gradients import MicroBatch, Synthetic
from accord.training.optim import is_due
from accord.training.run import RunDirectory

# --- What is said of a round that comes into use.


def pool_line(facts: dict[str, Any], guard: dict[str, Any] | None) -> dict[str, Any]:
    """A round as a line of metrics.jsonl."""
    dropped = dict(facts["fates"])
    kept = dropped.pop(KEPT)
    line = {
        **{key: facts[key] for key in ("round", "teacher", "pairs", "seconds", "target_tokens")},
        "translations": kept + sum(dropped.values()),
        "kept": kept,
        "dropped": dropped,
        "length_ratio": facts["target_tokens"] / max(facts["source_tokens"], 1),
    }
    return line if guard is None else {**line, "guard": guard}


def pool_sentence(line: dict[str, Any]) -> str:
    """The same for people."""
    reasons = ", ".join(f"{name} {count:,}" for name, count in line["dropped"].items() if count)
    return (
        f"round {line['round']} by {line['teacher']}: {line['kept']:,} of "
        f"{line['translations']:,} translations kept{f' (dropped: {reasons})' if reasons else ''}, "
        f"length ratio {line['length_ratio']:.2f}, made in {line['seconds']:.0f} s"
    )


Say = Callable[[int, dict[str, Any]], None]


class Completing:
    """Gives updates their synthetic batches, and keeps going the pool that these come from.

    Batches are as large as gold ones: half of one takes a recurrent model far more than half the
    time, and on a GPU those of the same shape share a recording. `shapes` are rows and length of
    gold micro-batches, shortest first. `state` is where an earlier process stood and is kept up to
    date. `say` is told of every round that comes into use. `told` says whether to give up waiting
    for one.
    """

    def __init__(
        self,
        experiment: Experiment,
        config: CompleteConfig,
        store: Store,
        world: World,
        student: GNMT,
        run: RunDirectory,
        state: PoolState,
        *,
        bf16: bool,
        shapes: Sequence[tuple[int, int]],
        progress: Progress,
        say: Say,
        told: Callable[[], bool] = lambda: False,
    ) -> None:
        self.config = config
        self.store = store
        self.world = world
        self.run = run
        self.state = state
        self.waited = 0.0
        self._seed = experiment.training_seed
        self._progress = progress
        self._say = say
        self._told = told
        self._shapes = shapes
        self._longest = shapes[-1][1]
        self._batch_tokens = experiment.training.batch_tokens
        self._triads = Triads(experiment.graph, config.parts)
        self._picker = Picker(store.corpora, self._triads, pairs=config.pairs, seed=self._seed)
        self._filters = Filters(
            config.filters,
            store.vocabulary,
            store.languages,
            usual_lengths(store.corpora),
            self._longest,
        )
        self._worker: Worker[Round] = Worker(world.device)
        self._teaching = Teaching(
            experiment, config, store, world, student, run,
            bf16=bf16, progress=progress, stopped=self._worker.stopped,
        )  # fmt: skip
        self._settings = self._fingerprint()
        if state.settings != self._settings:
            self._restart()
        if not state.next_teacher:
            _ = self._teaching.other  # says at once, not at the start, if there is none
        self._pool: Pool | None = None
        self._batches: Prefetcher[tuple[Position, Synthetic]] | None = None

    def next(self, step: int) -> Synthetic | None:
        """The synthetic batch of an update that has one; waits where its round is not ready.

        None before the start: nothing is computed then, and the run is Basic, bit for bit. Where
        waiting is given up, `Cancelled` is raised; a run can go on from the state as it is then.
        """
        if step <= self.config.start:
            return None
        began = time.perf_counter()
        if self._pool is None:  # at once, even if this update has none: it follows a checkpoint
            self._pool = self._open(step)
        due = is_due(step, start=self.config.start, every=self.config.every)
        synthetic = self._draw(self._pool, step) if due else None
        self.waited = time.perf_counter() - began
        return synthetic

    def follow(self) -> None:
        """An update has been made."""
        self._teaching.follow()

    def saved(self) -> dict[str, Mapping[str, Tensor]]:
        """What a checkpoint must hold beside the state."""
        return self._teaching.saved()

    def prune(self) -> None:
        """Delete rounds and versions of the teacher that no checkpoint needs."""
        rounds, teachers = set(), set()
        for state in [self.state, *map(_state_of, self.run.checkpoints.paths())]:
            rounds |= {state.round} if state.teacher else set()
            rounds |= {state.round + 1} if state.next_teacher else set()
            teachers |= {state.teacher, state.next_teacher}
        prune_rounds(self._directory, rounds)
        self._teaching.versions.prune(teachers)

    def explain(self, error: Exception) -> None:
        """Tell an error of training if making a round failed before it."""
        self._worker.explain(error)

    def close(self) -> None:
        """Give up what is being made."""
        self._worker.close()
        if self._batches is not None:
            self._batches.close()

    # --- rounds ----------------------------------------------------------------------------

    @property
    def _directory(self) -> Path:
        return self.run.path / "pool"

    @property
    def _versions(self) -> Path:
        return self._teaching.versions.directory

    def _open(self, step: int) -> Pool:
        """Begin the pool, or go on where the state says."""
        state, settings = self.state, self._settings
        if self.world.is_first:
            self.prune()  # what is not in the state was made after it, and will be made again
            # Left by a process that was killed while writing.
            for left in [*self._directory.glob(".round-*"), *self._versions.glob(".step-*")]:
                left.unlink(missing_ok=True)
        if state.next_teacher:
            self._teaching.restore(self.run.checkpoints.path(step - 1))
        else:
            self._teaching.decide(step - 1, state)
        teacher = self._teaching.teacher(state.next_teacher)
        maker = RoundMaker(
            self.store.corpora,
            self.store.languages,
            teacher,
            self._filters,
            self.config.select,
            self.config.teacher.tokens,
        )
        pool = Pool(
            self._directory, self._picker, maker, self._worker, self.world, self._teaching.load,
            self._told,
        )  # fmt: skip
        if state.teacher and state.epoch < self.config.uses:
            pool.request(state.round, state.teacher, settings)
            self._use(pool.take(state.round), Position(state.epoch, state.batch))
        pool.request(state.round + 1, state.next_teacher, settings)
        return pool

    def _draw(self, pool: Pool, step: int) -> Synthetic:
        """The next batch, of the next round where this one is used up."""
        item = next(self._batches, None) if self._batches is not None else None
        while item is None:
            item = next(self._take(pool, step))
        position, synthetic = item
        self.state.epoch, self.state.batch = position.epoch, position.batch
        return synthetic

    def _restart(self) -> None:
        """Other settings than before make other rounds; the teacher goes on if it is to."""
        state, asked = self.state, self._teaching.asked
        if state.settings:
            self._progress.note("other synthetic pairs than before: continuing with the next round")
        state.settings = self._settings
        state.teacher = ""
        if state.asked != asked:
            state.asked, state.next_teacher = asked, ""

    def _take(self, pool: Pool, step: int) -> "Batches":
        """Use the next round, and ask for the one after it."""
        state = self.state
        made = pool.take(state.round + 1)
        state.round, state.epoch, state.batch = state.round + 1, 0, 0
        state.teacher = state.next_teacher
        batches = self._use(made, Position())
        line = pool_line(made.facts, state.guard)
        self._say(step, line)
        self._progress.note(f"step {step:,}: {pool_sentence(line)}")
        self._teaching.decide(step - 1, state)
        pool.request(state.round + 1, state.next_teacher, self._settings)
        return batches

    def _use(self, made: Round, position: Position) -> "Batches":
        if self._batches is not None:
            self._batches.close()
        pairs = made.pairs(self.store.corpora, self._triads)
        targets = None
        if made.likely is not None:
            offsets, size = made.sentences.offsets, len(self.store.vocabulary)
            targets = Targets(pairs, self.store.languages, made.likely, offsets, size)
        stream = BatchStream(
            [each.corpus for each in pairs],
            self.store.languages,
            self.store.vocabulary.tags,
            batch_tokens=self._batch_tokens,
            seed=self._seed,
            rank=self.world.rank,
            world_size=self.world.size,
        )
        stream.seek(position)
        self._batches = Prefetcher(
            _first(stream, self.config.uses), transform=partial(self._tensors, targets)
        )
        return self._batches

    def _tensors(
        self, targets: Targets | None, item: tuple[Position, Batch]
    ) -> tuple[Position, Synthetic]:
        """Runs in the background: what the device will need of a batch."""
        position, batch = item
        width = max(batch.source_BS.shape[1], batch.target_BT.shape[1])
        rows, length = next(shape for shape in self._shapes if shape[1] >= width)
        count = max(1, -(-batch.rows // rows))
        parts = [batch.part(k, count) for k in range(count)]
        ready = []
        for part in parts:
            if self.world.device.type == "cuda":
                pairs = TensorBatch.of_shape(part, rows, length)
            else:
                pairs = TensorBatch.from_numpy(part)
            likely = _likely(targets.of(part), pairs) if targets is not None else None
            ready.append(MicroBatch(pairs, likely=likely))
        return position, Synthetic(
            ready,
            batch.target_tokens,
            batch.update_target_tokens,
            # In the mean over updates the gradient is that of all of them having such a batch.
            self.config.weight * self.config.every,
        )

    def _fingerprint(self) -> str:
        """Of all that rounds and their batches follow from, beside the weights of the teacher."""
        known = self.config.model_dump(mode="json", exclude={"weight", "start", "every", "teacher"})
        known |= {
            "vote": self.config.teacher.vote,
            "tokens": self.config.teacher.tokens,
            "asked": self._teaching.asked,
            "seed": self._seed,
            "data": self.store.manifest["fingerprint"],
            "batch_tokens": self._batch_tokens,
            "longest": self._longest,
        }
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def _likely(wanted: LikelyTargets, pairs: TensorBatch) -> Likely:
    """For the same places as those of a batch, which may be filled up."""
    rows, length = pairs.target_BT.shape
    more = [(0, rows - len(wanted.token_BTK)), (0, length - wanted.token_BTK.shape[1]), (0, 0)]
    token_BTK = torch.from_numpy(np.pad(wanted.token_BTK, more))
    share_BTK = torch.from_numpy(np.pad(wanted.share_BTK, more))
    found = Likely(token_BTK.flatten(0, 1), share_BTK.flatten(0, 1))
    return found.pinned() if pairs.target_BT.is_pinned() else found


Batches = Prefetcher[tuple[Position, Synthetic]]


def _first(stream: BatchStream, epochs: int) -> Iterator[tuple[Position, Batch]]:
    """The batches of the first epochs of a stream, from where it stands."""
    batches = iter(stream)
    while stream.position.epoch < epochs:
        yield next(batches)


def _state_of(checkpoint: Path) -> PoolState:
    """The part of a checkpoint that is about the pool; nothing where it cannot be read."""
    try:
        state = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
        return PoolState(**state.get("complete") or {})
    except (OSError, ValueError, TypeError, AttributeError):
        return PoolState()  # a damaged checkpoint is left aside by the next resume anyway
