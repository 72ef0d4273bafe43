"""Random online back-translation (Zhang et al. 2020): targets out of the model's own translations.

For a gold pair (x, y) a language is drawn, y is translated into it by the model in training, and
what comes out, z, makes a new pair (z, y). The target is text that somebody wrote; the source is
what the model says by now. Only the way back, z into y, has a gradient.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.config.objectives import BackTranslationConfig
from accord.config.third_languages import detours
from accord.data.batches import Batch, Int16s, Position
from accord.data.vocabulary import EOS, PAD
from accord.models.base import Seq2Seq
from accord.models.tensor_batch import TensorBatch
from accord.objectives.agreement.decoding import Translations, generate, relative_limit
from accord.objectives.agreement.inputs import draw_below, filled
from accord.objectives.agreement.objective import unigrams
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
from accord.objectives.likelihood import LikelihoodObjective, composite_likelihood

_STREAM = 0x524F4254  # keeps these random numbers apart from others of the same seed
_NONE = -1  # instead of a language: there is no detour for this target
_LEAST_KEPT = 0.5  # of translations: with fewer, something is wrong


@dataclass(frozen=True)
class DetourInputs:
    """Rows [tag of the language drawn, y] with y as their target, and the tag for the way back.

    Languages are those of the way out: from y's into the one drawn.
    """

    out: TensorBatch
    back_tag_B: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """All that a CUDA graph depends on."""
        return (*self.out.source_BS.shape, *self.out.target_BT.shape)

    def to(self, device: torch.device) -> "DetourInputs":
        """On a device."""
        return DetourInputs(self.out.to(device), self.back_tag_B.to(device, non_blocking=True))

    def copy_from(self, other: "DetourInputs") -> None:
        """Take over the contents of one of the same shape."""
        self.out.copy_from(other.out)
        self.back_tag_B.copy_(other.back_tag_B, non_blocking=True)


class BackTranslationObjective(Objective[DetourInputs]):
    """The likelihood of gold targets, given translations of them."""

    name = "back_translation"
    counts = ("nll", "tokens", "translations", "kept", "ended", "right_language")

    def __init__(
        self, config: BackTranslationConfig, context: Context, likelihood: LikelihoodObjective
    ) -> None:
        graph, tags = context.experiment.graph, context.store.vocabulary.tags
        self.config = config
        self._label_smoothing = likelihood.label_smoothing
        self._seed = context.experiment.training_seed
        self._world = context.world
        self._unigrams_LV = unigrams(context.store).to(context.world.device)
        self._tags_L = np.array([tags[x] for x in graph.languages], dtype=np.int32)
        choices = [detours(graph, config.languages, target) for target in graph.languages]
        self._counts_L = np.array([len(each) for each in choices])
        self._choices_LK = np.full((len(choices), len(choices)), _NONE, dtype=np.int16)
        for row, each in zip(self._choices_LK, choices, strict=True):
            row[: len(each)] = [graph.languages.index(x) for x in each]

    def weight(self, step: int) -> float:
        """Where only every n-th update computes it, it counts n times as much there."""
        config = self.config
        return due_weight(step, weight=config.weight, start=config.start, every=config.every)

    def inputs(self, step: int, position: Position, batch: Batch, cut: Cut) -> list[DetourInputs]:
        """The targets of the batch, tagged with the languages drawn for them."""
        drawn_B = self.draw(batch, position)
        return [
            self.tagged(part, drawn_B[k :: cut.parts], shape)
            for k, (part, shape) in enumerate(cut(batch))
        ]

    def work(self, step: int, batch: Batch, inputs: list[DetourInputs]) -> Work[DetourInputs]:
        """A sum over target tokens, on the scale of gold ones; those left out count as 0."""
        tokens = sum(part.out.target_tokens for part in inputs)
        return Work(inputs, (self.weight(step),), tokens)

    def loss(self, model: Seq2Seq, inputs: DetourInputs) -> Terms:
        """Sums over the target tokens whose translations are fit to learn from."""
        if not len(inputs.out.places_N):  # one process's share of a small last batch may be empty
            zero = model.output_weight.new_zeros((), requires_grad=True)
            return Terms({"loss": zero}, dict.fromkeys(self.counts, zero.detach()))
        said = translate(model, inputs.out)
        there_B = inputs.out.target_lengths_B > 0
        kept_B = there_B & self._fit(said, inputs)
        pairs = way_back(inputs, said, kept_B)
        found = composite_likelihood(model, pairs, label_smoothing=self._label_smoothing)
        right_B = said.right_language(self._unigrams_LV, inputs.out.target_language_B)
        counts = {
            "tokens": pairs.target_BT != PAD,
            "translations": there_B,
            "kept": kept_B,
            "ended": there_B & said.ended(),
            "right_language": there_B & right_B,
        }
        sums = {name: marked.sum() for name, marked in counts.items()}
        return Terms({"loss": found.loss}, {"nll": found.nll, **sums})

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """How the way back goes, in nats per subword, and how the translations look."""
        made, of = tally.sums.get("translations", 0.0), tally.sums
        if not made:
            return {}
        return {
            "back_translation_nll": of["nll"] / of["tokens"] if of["tokens"] else None,
            "back_translation_tokens": of["tokens"],
            "back_translation_kept": of["kept"] / made,
            "back_translation_ended": of["ended"] / made,
            "back_translation_right_language": of["right_language"] / made,
        }

    def warning(self, values: Mapping[str, Any]) -> str | None:
        """That hardly anything is learnt from."""
        kept = values.get("back_translation_kept", 1.0)
        if kept >= _LEAST_KEPT:
            return None
        return (
            f"only {kept:.0%} of the back-translations end, are long enough and do not repeat "
            "themselves; the others teach nothing: try a later objective.back_translation.start"
        )

    def largest(self, batch: Batch, shape: Shape | None) -> DetourInputs:
        """The whole batch; which languages are drawn changes no shape."""
        return self.tagged(batch, np.zeros(batch.rows, dtype=np.int16), shape)

    def draw(self, batch: Batch, position: Position) -> Int16s:
        """A language for every row of this process, each of those possible with equal chance."""
        key = (self._seed, position.epoch, position.number, _STREAM)
        counts_B = self._counts_L[batch.target_language_B]
        picks_B = draw_below(counts_B, key, batch.update_rows, self._world.rank, self._world.size)
        drawn_B: Int16s = self._choices_LK[batch.target_language_B, picks_B]
        return drawn_B

    def tagged(self, part: Batch, drawn_B: Int16s, shape: Shape | None) -> DetourInputs:
        """The rows that a language was drawn for, with its tag before their targets."""
        part, drawn_B = part.where(drawn_B != _NONE), drawn_B[drawn_B != _NONE]
        source_BS = np.concatenate([self._tags_L[drawn_B][:, None], part.target_BT], axis=1)
        out = replace(
            part,
            source_BS=source_BS,
            source_lengths_B=part.target_lengths_B + 1,
            source_language_B=part.target_language_B,
            target_language_B=drawn_B,
        )
        tags_B = self._tags_L[part.target_language_B].astype(np.int64)
        if shape is None:
            return DetourInputs(tensors_of(out, None), torch.from_numpy(tags_B))
        rows, length = shape
        pairs = tensors_of(out, (rows, length + 1))  # targets have gained a tag
        return DetourInputs(pairs, filled(tags_B, rows, EOS).pin_memory())

    def _fit(self, said: Translations, inputs: DetourInputs) -> Tensor:
        """Whether each translation says something, comes to an end, and is not degenerate."""
        poor_B = said.degenerate(
            inputs.out.target_lengths_B, self.config.least_length, self.config.distinct_bigrams
        )
        return said.ended() & (said.lengths() > 1) & ~poor_B


@torch.no_grad()
def translate(model: Seq2Seq, rows: TensorBatch) -> Translations:
    """Greedy translations of the sources, without dropout; nothing is learnt from making them."""
    subwords_B = (rows.source_lengths_B - 2).clamp(min=0)  # without tag and end
    steps = relative_limit(rows.source_BS.shape[1] - 2)
    with _evaluating(model):
        memory = model.encode(rows.source_BS, rows.source_lengths_B, rows.source_language_B)
        return generate(model, memory, relative_limit(subwords_B), steps, decoding="hard")


def way_back(inputs: DetourInputs, said: Translations, kept_B: Tensor) -> TensorBatch:
    """What was said, tagged with the language of its target, which is empty in rows not kept."""
    tokens_BT = said.tokens_BT.masked_fill(~said.real_BT, PAD)
    return replace(
        inputs.out,
        source_BS=torch.cat([inputs.back_tag_B.unsqueeze(1), tokens_BT], dim=1),
        source_lengths_B=said.lengths() + 1,
        source_language_B=inputs.out.target_language_B,
        target_language_B=inputs.out.source_language_B,
        target_BT=inputs.out.target_BT.masked_fill(~kept_B.unsqueeze(1), PAD),
    )


@contextmanager
def _evaluating(model: Seq2Seq) -> Iterator[None]:
    """A model in evaluation mode, and then as it was."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)
