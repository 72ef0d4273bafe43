"""Distillation as an objective (Complete): synthetic pairs beside the gold ones.

A teacher's translations complete gold pairs by a third language. Here is when such pairs are on,
what they weigh, and where the run stands among them.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from accord.config.objectives import CompleteConfig
from accord.config.third_languages import Triads
from accord.data.batches import Batch, BatchStream, Position
from accord.data.store import trained_corpora
from accord.models.base import Seq2Seq
from accord.models.checkpoint import Checkpoints, objective_states
from accord.objectives.base import (
    Context,
    Cut,
    Objective,
    Session,
    Shape,
    Tally,
    Terms,
    Work,
    is_due,
)
from accord.objectives.distillation.background import Worker
from accord.objectives.distillation.filters import Filters, usual_lengths
from accord.objectives.distillation.pool import (
    Pool,
    PoolState,
    pool_line,
    pool_sentence,
    prune_rounds,
)
from accord.objectives.distillation.rounds import Round, RoundMaker
from accord.objectives.distillation.sampling import Picker
from accord.objectives.distillation.soft_targets import Targets
from accord.objectives.distillation.synthetic_batches import (
    Batches,
    SyntheticBatch,
    Taught,
    prefetched,
)
from accord.objectives.distillation.teaching import Teaching
from accord.objectives.distillation.whole_softmax import (
    TaughtInputs,
    TaughtSentences,
    divergence,
)
from accord.objectives.likelihood import LikelihoodObjective, PairInputs


def goes_on_without(device: torch.device) -> bool:
    """Whether training goes on with gold pairs alone until the first round is there.

    On a CPU it waits: when a round is done hangs on what else the machine does, and a run on a CPU
    is to be the same every time. On a GPU it is not in any case.
    """
    return device.type != "cpu"


class DistillationObjective(Objective[PairInputs]):
    """Gives updates their synthetic batches, and keeps going the pool that these come from.

    Batches are as large as gold ones: half of one takes a recurrent model far more than half the
    time, and on a GPU those of the same shape share a recording with the likelihood.
    """

    name = "complete"
    counts = ("nll",)

    def __init__(
        self, config: CompleteConfig, context: Context, likelihood: LikelihoodObjective
    ) -> None:
        experiment, store = context.experiment, context.store
        self.config = config
        self.store = store
        self.world = context.world
        self.run = context.run
        self.pool_state = PoolState()
        self._likelihood = likelihood
        self._whole = config.teacher.tokens == "all"
        self._seed = experiment.training_seed
        self._progress = context.progress
        self._batch_tokens = experiment.training.batch_tokens
        self._triads = Triads.of(experiment.graph, config)
        self._corpora = trained_corpora(store.corpora, experiment.graph.supervised)
        self._picker = Picker(self._corpora, self._triads, pairs=config.pairs, seed=self._seed)
        self._worker: Worker[Round] = Worker(self.world.device)
        self._teaching = Teaching(config, context, stopped=self._worker.stopped)
        # Without gold pairs there is nothing to go on with.
        self._goes_on = config.gold and goes_on_without(self.world.device)
        self._checkpoint: Path | None = None
        self._pool: Pool | None = None
        self._batches: Batches | None = None
        self._batches_per_use = 0

    @property
    def scorer(self) -> Objective[PairInputs]:
        """Synthetic pairs are scored as gold ones are, but for a teacher's whole softmax."""
        return self if self._whole else self._likelihood

    def weight(self, step: int) -> float:
        """0 before the start: nothing is computed then, and the run is Basic, bit for bit."""
        return self.config.weight if step > self.config.start else 0.0

    def inputs(self, step: int, position: Position, batch: Batch, cut: Cut) -> list[PairInputs]:
        """Nothing of the gold batch: synthetic ones have a background thread of their own."""
        return []

    def work(self, step: int, batch: Batch, inputs: list[PairInputs]) -> Work[PairInputs]:
        """The synthetic batch of an update that has one; waits where its round is not ready.

        For the first round it need not wait: see `goes_on_without`.
        Where waiting is given up, `Cancelled` is raised.
        """
        began = time.perf_counter()
        if self._pool is None:  # at once, even if this update has none: it follows a checkpoint
            self._pool = self._open(step)
        made = None
        if is_due(step, start=self.config.start, every=self.config.every):
            if self._goes_on and not self.pool_state.teacher and not self._pool.ready():
                self.pool_state.late += 1
            else:
                made = self._draw(self._pool, step)
        waited = time.perf_counter() - began
        if made is None:
            return Work(waited=waited)
        # A mean over their own tokens, so that they count the same however many there are. In the
        # mean over updates the gradient is that of all of them having such a batch.
        weight = self.config.weight * self.config.every
        scale = weight * batch.update_target_tokens / made.update_tokens
        return Work(made.parts, (scale,), made.tokens, waited)

    def loss(self, model: Seq2Seq, inputs: PairInputs) -> Terms:
        """That of the likelihood, or the divergence from the teacher's whole softmax."""
        if not isinstance(inputs, TaughtInputs):
            return self._likelihood.loss(model, inputs)
        loss, nll = divergence(model, self._teaching.in_updates, inputs)
        return Terms({"loss": loss}, {"nll": nll})

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """Synthetic pairs, apart from all that is said about gold ones."""
        found: dict[str, float | None] = {}
        if tally.tokens:
            found = {
                "complete_loss": tally.mean("loss"),
                "complete_nll": tally.mean("nll"),
                "complete_tokens": tally.tokens,
                "complete_wait": tally.waited,
            }
        if not self.config.gold:  # then these are the run's own
            found |= self._likelihood.metrics(tally, sentences)
        late = self.pool_state.late
        return {**found, "complete_late": late} if late else found

    def largest(self, batch: Batch, shape: Shape | None) -> PairInputs | None:
        """As large as the gold batch, which has been tried already if it is computed at all."""
        return None if self.config.gold else self._likelihood.largest(batch, shape)

    def begin(self, session: Session) -> None:
        """Go on where the state says, or begin anew where rounds would be other ones."""
        self._session = session
        self._longest = session.cut.shapes[-1][1]
        self._filters = Filters(
            self.config.filters,
            self.store.vocabulary,
            self.store.languages,
            usual_lengths(self._corpora),
            self._longest,
        )
        self._settings = self._fingerprint()
        if self.pool_state.settings != self._settings:
            self._restart()
        if not self.pool_state.next_teacher:
            _ = self._teaching.other  # says at once, not at the start, if there is none

    def updated(self) -> None:
        """A teacher that follows the student does so now."""
        self._teaching.follow()

    def state(self) -> dict[str, Any]:
        """The place in the pool."""
        return asdict(self.pool_state)

    def tensors(self) -> dict[str, Mapping[str, Tensor]]:
        """A running average of the student's weights, if one teaches."""
        return self._teaching.saved()

    def restore(self, state: Mapping[str, Any], checkpoint: Path) -> None:
        """Go on at that place."""
        self.pool_state = PoolState(**state)
        self._checkpoint = checkpoint

    def saved(self) -> None:
        """Delete rounds and versions of the teacher that no checkpoint needs."""
        rounds, teachers = set(), set()
        paths = Checkpoints(self.run.checkpoints).paths()
        for state in [self.pool_state, *map(_state_of, paths)]:
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
        if self.pool_state.late and not self.pool_state.teacher:
            self._progress.note(
                f"the first round of synthetic pairs is not there yet: {self.pool_state.late:,} "
                "updates that would have had some were made with gold pairs alone"
            )
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
        state, settings = self.pool_state, self._settings
        if self.world.is_first:
            self.saved()  # what is not in the state was made after it, and will be made again
            # Left by a process that was killed while writing.
            for left in [*self._directory.glob(".round-*"), *self._versions.glob(".step-*")]:
                left.unlink(missing_ok=True)
        if state.next_teacher:
            if self._checkpoint is not None:
                self._teaching.restore(self._checkpoint)
        else:
            self._teaching.decide(step - 1, state)
        teacher, tokens = self._teaching.teacher(state.next_teacher), self.config.teacher.tokens
        maker = RoundMaker(
            self._corpora,
            self.store.languages,
            teacher,
            self._filters,
            self.config.select,
            1 if tokens == "all" else tokens,
            self._seed if self.config.search.sample is not None else None,
        )
        pool = Pool(
            self._directory, self._picker, maker, self._worker, self.world, self._teaching.load,
            self._session.told,
        )  # fmt: skip
        if state.teacher and state.epoch < self.config.uses:
            pool.request(state.round, state.teacher, settings)
            self._use(pool.take(state.round), Position(state.epoch, state.batch, state.window))
        self._ask(pool, step - 1)
        return pool

    def _draw(self, pool: Pool, step: int) -> SyntheticBatch:
        """The next batch, of the next round where this one is used up."""
        item = next(self._batches, None) if self._batches is not None else None
        while item is None:
            item = next(self._take(pool, step))
        position, synthetic = item
        state = self.pool_state
        state.epoch, state.batch, state.window = position.epoch, position.batch, position.window
        return synthetic

    def _restart(self) -> None:
        """Other settings than before make other rounds; the teacher goes on if it is to."""
        state, asked = self.pool_state, self._teaching.asked
        if state.settings:
            self._progress.note("other synthetic pairs than before: continuing with the next round")
        state.settings = self._settings
        state.teacher = ""
        if state.asked != asked:
            state.asked, state.next_teacher = asked, ""

    def _take(self, pool: Pool, step: int) -> Batches:
        """Use the next round, and ask for the one after it."""
        state = self.pool_state
        if not pool.asked(state.round + 1):  # training goes on for longer than was expected
            pool.request(state.round + 1, state.next_teacher, self._settings)
        made = pool.take(state.round + 1)
        state.round, state.epoch, state.batch, state.window = state.round + 1, 0, 0, 0
        state.teacher = state.next_teacher
        batches = self._use(made, Position())
        line = pool_line(made.facts, state.guard)
        self._session.log("pool", step, line)
        self._progress.note(f"step {step:,}: {pool_sentence(line)}")
        self._teaching.decide(step - 1, state)
        self._ask(pool, step)
        return batches

    def _ask(self, pool: Pool, step: int) -> None:
        """Ask for the next round, unless this one lasts until training ends."""
        state = self.pool_state
        wanted = -(-(self._session.latest_step() - step) // self.config.every)
        left = (self.config.uses - state.epoch) * self._batches_per_use - state.batch
        if wanted > left:
            pool.request(state.round + 1, state.next_teacher, self._settings)

    def _use(self, made: Round, position: Position) -> Batches:
        if self._batches is not None:
            self._batches.close()
        pairs = made.pairs(self._corpora, self._triads)
        taught: Taught = None
        if made.likely is not None:
            offsets, size = made.sentences.offsets, len(self.store.vocabulary)
            taught = Targets(pairs, self.store.languages, made.likely, offsets, size)
        elif self._whole:
            self._teaching.take_part(self.pool_state.teacher)
            taught = TaughtSentences(pairs, self.store.languages, made.origins, self._corpora)
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
        self._batches_per_use = stream.estimated_batches()
        self._batches = prefetched(stream, self.config.uses, taught, self._session.cut)
        return self._batches

    def _fingerprint(self) -> str:
        """Of all that rounds and their batches follow from, beside the weights of the teacher."""
        known = self.config.model_dump(mode="json", exclude=_NOT_OF_ROUNDS)
        # Keys that former versions did not know: where they are not given, rounds are as before.
        if known["directions"] is None:
            del known["directions"]
        if known["search"]["sample"] is None:
            del known["search"]["sample"]
        known |= {
            "vote": self.config.teacher.vote,
            "tokens": self.config.teacher.tokens,
            "asked": self._teaching.asked,
            "seed": self._seed,
            "data": self.store.manifest["fingerprint"],
            "batch_tokens": self._batch_tokens,
            "longest": self._longest,
        }
        if self._picker.in_blocks:  # former versions shuffled any number of pairs as a whole
            known["blocks"] = True
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


_NOT_OF_ROUNDS = {"preset", "weight", "gold", "start", "every", "teacher"}


def _state_of(checkpoint: Path) -> PoolState:
    """The part of a checkpoint that is about the pool; nothing where it cannot be read."""
    try:
        state = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
        return PoolState(**objective_states(state).get(DistillationObjective.name, {}))
    except (OSError, ValueError, TypeError, AttributeError):
        return PoolState()  # a damaged checkpoint is left aside by the next resume anyway
