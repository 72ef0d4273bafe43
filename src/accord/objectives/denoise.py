"""Denoising: sentences with gaps in them, to be filled in (Wang et al. 2021).

A noisy sentence is read under the tag of its own language, and the whole one is its target. Beside
the gold pairs this is one direction more, from the pivot language into itself, or one for every
language; it is scored as those are. The noise is made on the host, in the background.
"""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from accord.config.objectives import DenoiseConfig
from accord.data.batches import Batch, Bools, Int32s, Position
from accord.data.dedup import priority
from accord.data.epoch_plan import Int64s
from accord.data.vocabulary import EOS, PAD
from accord.models.base import Seq2Seq
from accord.objectives.agreement.inputs import draw_below
from accord.objectives.base import (
    Context,
    Cut,
    Objective,
    Shape,
    Tally,
    Terms,
    Work,
    due_weight,
    tensors_of,
)
from accord.objectives.likelihood import LikelihoodObjective, PairInputs

Words = npt.NDArray[np.uint64]

_STREAM = 0x4E4F4953  # keeps these random numbers apart from others of the same seed


class DenoiseObjective(Objective[PairInputs]):
    """Noisy sentences into whole ones, from the gold batch of the update."""

    name = "denoise"
    counts = ("nll",)

    def __init__(
        self, config: DenoiseConfig, context: Context, likelihood: LikelihoodObjective
    ) -> None:
        graph, vocabulary = context.experiment.graph, context.store.vocabulary
        named = graph.languages if config.languages == "all" else config.languages
        chosen = named or (graph.hub,)
        self.config = config
        self._likelihood = likelihood
        self._seed = context.experiment.training_seed
        self._world = context.world
        self._mark = vocabulary.unknown
        self._chosen_L = np.array([language in chosen for language in graph.languages])
        self._tags_L = np.array([vocabulary.tags[x] for x in graph.languages], dtype=np.int32)

    @property
    def scorer(self) -> LikelihoodObjective:
        """They are scored as gold pairs are."""
        return self._likelihood

    def weight(self, step: int) -> float:
        """Where only every n-th update computes it, it counts n times as much there."""
        config = self.config
        return due_weight(step, weight=config.weight, start=config.start, every=config.every)

    def inputs(self, step: int, position: Position, batch: Batch, cut: Cut) -> list[PairInputs]:
        """The sentences of the chosen languages in the gold batch, with gaps and without."""
        noisy, found_B = self.noisy(batch, position)
        return [
            PairInputs(
                tensors_of(noisy.part(k, cut.parts).where(found_B[k :: cut.parts]), _wider(shape))
            )
            for k, (_, shape) in enumerate(cut(batch))
        ]

    def work(self, step: int, batch: Batch, inputs: list[PairInputs]) -> Work[PairInputs]:
        """A sum over their tokens, on the scale of gold ones."""
        tokens = sum(part.pairs.target_tokens for part in inputs)
        return Work(inputs, (self.weight(step),), tokens)

    def loss(self, model: Seq2Seq, inputs: PairInputs) -> Terms:
        """That of the likelihood."""
        return self._likelihood.loss(model, inputs)

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """Nats per subword of what was filled in, apart from all that is said about gold pairs,
        and how many subwords these were."""
        if not tally.tokens:
            return {}
        return {
            "denoise_loss": tally.mean("loss"),
            "denoise_nll": tally.mean("nll"),
            "denoise_tokens": tally.tokens,
        }

    def largest(self, batch: Batch, shape: Shape | None) -> PairInputs:
        """The whole batch: every pair may have such a sentence."""
        return PairInputs(tensors_of(batch, _wider(shape)))

    def noisy(self, batch: Batch, position: Position) -> tuple[Batch, Bools]:
        """A noisy and a whole sentence for every pair, and whether it has one to be chosen.

        Rows without one hold something else.
        """
        key = (self._seed, position.epoch, position.number, _STREAM)
        any_B = np.full(batch.rows, 2**62)
        words_B = draw_below(
            any_B, key, batch.update_rows, self._world.rank, self._world.size
        ).astype(np.uint64)
        of_source_B = self._chosen_L[batch.source_language_B]
        of_target_B = self._chosen_L[batch.target_language_B]
        either_B = priority(words_B, self._seed, "side") % np.uint64(2) == 1
        targets_B = of_target_B & (either_B | ~of_source_B)
        language_B = np.where(targets_B, batch.target_language_B, batch.source_language_B)
        clean_BT, lengths_B = _sides(batch, targets_B)
        gaps_BN, left_B = mask_spans(
            clean_BT[:, :-1],
            lengths_B - 1,
            words_B,
            share=self.config.mask,
            span=self.config.span,
            mark=self._mark,
        )
        source_BS = np.pad(gaps_BN, ((0, 0), (1, 1)), constant_values=PAD)
        source_BS[:, 0] = self._tags_L[language_B]
        source_BS[np.arange(batch.rows), left_B + 1] = EOS
        noisy = replace(
            batch,
            source_BS=source_BS,
            source_lengths_B=left_B + 2,
            target_BT=clean_BT,
            target_lengths_B=lengths_B,
            source_language_B=language_B,
            target_language_B=language_B,
        )
        return noisy, of_source_B | of_target_B


def _wider(shape: Shape | None) -> Shape | None:
    """Room for a target that became a source: it has gained a tag."""
    return shape and (shape[0], shape[1] + 1)


def _sides(batch: Batch, targets_B: Bools) -> tuple[Int32s, Int64s]:
    """The targets of the rows that are marked, and the sources of others: [subwords, EOS]."""
    width = max(batch.source_BS.shape[1] - 1, batch.target_BT.shape[1])
    sides = [
        np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=PAD)
        for rows in (batch.target_BT, batch.source_BS[:, 1:])
    ]
    lengths_B = np.where(targets_B, batch.target_lengths_B, batch.source_lengths_B - 1)
    return np.where(targets_B[:, None], *sides), lengths_B


# --- The noise: spans of subwords, each replaced by one mark.
#
# Each row's random numbers follow from its word and a column, so that neither the other rows nor
# the width of the batch change them.


def mask_spans(
    rows_BN: Int32s, lengths_B: Int64s, words_B: Words, *, share: float, span: float, mark: int
) -> tuple[Int32s, Int64s]:
    """Rows in which spans of neighbours are replaced by a mark each, and their lengths.

    In the mean just this share of `lengths_B` is replaced, but never all. Lengths of spans are
    Poisson numbers, at least 1; the last one is cut so that the share is met. What remains and the
    spans stand in a random order: each is as likely as any other.
    """
    columns_N = np.arange(rows_BN.shape[1])
    wanted_B = np.floor(share * lengths_B + _uniform(words_B, "share")).astype(np.int64)
    masked_B = np.minimum(wanted_B, np.maximum(lengths_B - 1, 0))
    spans_BK = _spans(masked_B, words_B, span)
    count_B = (spans_BK > 0).sum(axis=1)
    left_B = lengths_B - masked_B + count_B
    inside_BN = columns_N < left_B[:, None]
    keys_BN = np.where(inside_BN, _uniform(_columns(words_B, columns_N), "order"), 1.0)
    rank_BN = keys_BN.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    spans_here_BN = rank_BN < count_B[:, None]
    # By rank, not by place: the span that was cut is not always the last.
    number_BN = np.minimum(rank_BN, spans_BK.shape[1] - 1)
    taken_BN = np.where(spans_here_BN, np.take_along_axis(spans_BK, number_BN, axis=1), 1)
    place_BN = np.minimum(taken_BN.cumsum(axis=1) - taken_BN, columns_N[-1:])
    kept_BN = np.where(spans_here_BN, mark, np.take_along_axis(rows_BN, place_BN, axis=1))
    return np.where(inside_BN, kept_BN, PAD).astype(np.int32), left_B


def _spans(masked_B: Int64s, words_B: Words, mean: float) -> Int64s:
    """Lengths of spans that sum up to `masked_B` in every row [B, K]; zeros fill it up."""
    columns_K = np.arange(masked_B.max(initial=1))
    counts = np.arange(int(mean + 10 * math.sqrt(mean)) + 10)
    log_p = counts * math.log(mean) - mean - np.array([math.lgamma(k + 1) for k in counts])
    drawn_BK = np.searchsorted(
        np.exp(log_p).cumsum(), _uniform(_columns(words_B, columns_K), "spans"), side="right"
    )
    ends_BK = np.minimum(np.maximum(drawn_BK, 1).cumsum(axis=1), masked_B[:, None])
    spans_BK: Int64s = np.diff(ends_BK, axis=1, prepend=0)
    return spans_BK


def _columns(words_B: Words, columns_N: Int64s) -> Words:
    return words_B[:, None] + columns_N.astype(np.uint64)


def _uniform(words: Words, what: str) -> npt.NDArray[np.float64]:
    """Numbers from 0 up to, but not including, 1."""
    return (priority(words, 0, "noise", what) >> np.uint64(11)).astype(np.float64) * 2.0**-53
