"""Word-level distillation from a teacher's whole softmax, of which nothing is kept on disk.

At every place of a synthetic target, the student that reads the pupil's sentence is to say what the
teacher says that reads its own: the sum of KL(teacher || student) over places (Chen et al. 2017).
The teacher's part is computed anew in each update, from its weights: a round would hold V numbers
for every token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from accord.data.batches import Batch
from accord.data.store import ParallelCorpus
from accord.data.vocabulary import EOS, PAD
from accord.models.base import Seq2Seq
from accord.models.tensor_batch import TensorBatch
from accord.objectives.distillation.rounds import Origins
from accord.objectives.distillation.soft_targets import MadePairs
from accord.objectives.likelihood import PairInputs, scored_hidden
from accord.ops.softmax_cross_entropy import dense_cross_entropy


@dataclass(frozen=True)
class TaughtInputs(PairInputs):
    """Synthetic pairs, and the same targets beside the sentences that the teacher reads."""

    taught: TensorBatch = field(kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """All that a CUDA graph depends on."""
        return (*super().shape, *self.taught.source_BS.shape)

    def to(self, device: torch.device) -> "TaughtInputs":
        """On a device."""
        return TaughtInputs(self.pairs.to(device), taught=self.taught.to(device))

    def copy_from(self, other: PairInputs) -> None:
        """Take over the contents of one of the same shape."""
        super().copy_from(other)
        if isinstance(other, TaughtInputs):
            self.taught.copy_from(other.taught)


class TaughtSentences:
    """Finds what the teacher read for the targets of batches of synthetic pairs, all of which it
    made. `gold` are the corpora that its sentences are from."""

    def __init__(
        self,
        pairs: Sequence[MadePairs],
        languages: Sequence[str],
        origins: Origins,
        gold: Sequence[ParallelCorpus],
    ) -> None:
        self.languages = tuple(languages)
        self.origins = origins
        self.gold = gold
        self._rows = {
            (c, self.languages.index(language)): translations
            for c, made in enumerate(pairs)
            for language, translations in zip(made.corpus.languages, made.translations, strict=True)
            if translations is not None
        }

    def beside(self, batch: Batch) -> Batch:
        """The batch with the teacher's sentences as sources, under the same tags."""
        found, spoken = [], []
        columns = (batch.corpus_B, batch.target_language_B, batch.line_B)
        for c, language, line in zip(*(column.tolist() for column in columns), strict=True):
            row, of = self._rows[c, language][line], self.origins
            corpus, side = self.gold[of.corpus_N[row]], of.side_N[row]
            found.append(corpus.sides[side][of.line_N[row]])
            spoken.append(self.languages.index(corpus.languages[side]))
        lengths_B = np.array([len(ids) + 2 for ids in found], dtype=np.int64)
        source_BS = np.full((len(found), int(lengths_B.max(initial=2))), PAD, dtype=np.int32)
        source_BS[:, 0] = batch.source_BS[:, 0]
        for row, ids in enumerate(found):
            source_BS[row, 1 : len(ids) + 1] = ids
            source_BS[row, len(ids) + 1] = EOS
        return replace(
            batch,
            source_BS=source_BS,
            source_lengths_B=lengths_B,
            source_language_B=np.array(spoken, dtype=np.int16),
        )


def divergence(
    model: Seq2Seq, teacher: Seq2Seq, inputs: TaughtInputs, chunk: int = 8192
) -> tuple[Tensor, Tensor]:
    """The sum of KL(teacher || model) over target tokens, and that of the cross-entropies, which is
    without gradient: what the model loses on tokens drawn by the teacher."""
    pairs = inputs.pairs
    if not len(pairs.places_N):  # one process's share of a small last batch may be empty
        zero = model.output_weight.new_zeros((), requires_grad=True)
        return zero, zero.detach()
    with torch.no_grad():
        wanted_ND = scored_hidden(teacher, inputs.taught)
    real_N = (pairs.scored(pairs.target_BT) != PAD).float()
    loss, entropy_N = dense_cross_entropy(
        wanted_ND,
        scored_hidden(model, pairs),
        model.output_weight,
        real_N,
        wanted_weight_VD=teacher.output_weight,
        divergence=True,
        chunk=chunk,
    )
    return loss, torch.dot(entropy_N, real_N.to(entropy_N.dtype))
