"""Agreement: the two sides of a pair should be translated alike into a third language.

Each side is translated into the auxiliary language, and the other side scores what came out. In the
mean over pairs this is the lower bound of the paper's agreement likelihood, in both mirror forms.

Gradients reach only directions without data. A row, that is one side with the auxiliary tag, is
either live, and then everything computed from it is, or it is not, and then nothing is: neither
its translation nor the log-probabilities that it gives to the other side's. With one live side per
pair (always so with English-centric data), live rows make up exactly half of the rows; the other
half generates and scores without a backward pass. Otherwise all rows run with gradients and those
of protected rows are stopped one by one. Which of the two it is follows from the translation graph,
so shapes stay fixed, as CUDA graphs want.

Algorithm 1, line 8 of the paper stops supervised log-probabilities. Our reading: what the reader
says is a constant, but what is read may learn from it. `AgreementInputs.judged_learn` is the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from accord.models.base import Memory, Seq2Seq, shift_right
from accord.objectives.agreement.decoding import Decoding, Translations, generate
from accord.objectives.agreement.inputs import AgreementInputs
from accord.ops.softmax_cross_entropy import dense_cross_entropy

# What is added up while translations are scored, in the order of `_Reading.counts_K`.
_READ = (
    "cross_entropy",
    "entropy",
    "tokens",
    "reference_tokens",
    "ended",
    "right_language",
    "degenerate",
    "translations",
)
COUNTS = (*_READ, "pairs")


@dataclass(frozen=True)
class AgreementSettings:
    """How agreement is measured; the choice of languages and of gradients lies in the inputs.

    What the experiment file sets has no default here: there is one set of defaults, in its keys.
    """

    decoding: Decoding
    """continuous: mixtures of embeddings. straight-through: the likeliest token, the gradient of
    the mixture. hard and sampled: tokens without gradient, so that only scoring is trained."""
    measure: Literal["cross-entropy", "kl"]
    """kl takes the entropy of the translation off, so that nothing asks it to get sharper."""
    normalize: Literal["sum", "token"]
    """Over the positions of one translation: their sum (the paper's scale), or their mean."""
    max_length: int
    """The most tokens of a translation."""
    relative_length: bool
    """Also stop after 1.5 times the longer sentence of the pair and 5 tokens."""
    temperature: float
    """Of the softmax of translations; scoring is always at 1."""
    dropout: bool
    """Dropout while translating; there is none while scoring."""
    fixed_length: bool
    """Count every position up to the limit, also those after the end of sentence."""
    feedback_gradient: bool
    """Let gradients flow through the mixtures that were fed back, step before step."""
    distinct_bigrams: float
    """Least share of different neighbours in a translation."""
    least_length: float
    """Least length of a translation, as a share of the mean length of the pair's sides, less one.

    Plain tokens that fall short in one of these teach nothing: who learns from repetitions says
    more of them, and who learns only from what does not repeat itself gets shorter."""
    translations: bool = True
    """Compute the agreement of translations."""
    encodings: bool = False
    """Compute the agreement of encodings: 1 - cosine of the max-pooled encoder outputs."""
    chunk: int = 8192
    """Positions whose distributions are in memory at a time."""
    unigrams_LV: Tensor | None = field(default=None, compare=False, repr=False)
    """Log-probabilities of tokens in each language's text, to tell the language of translations."""

    @property
    def soft(self) -> bool:
        """Whether translations are distributions that carry gradient."""
        return self.decoding in ("continuous", "straight-through")

    def limits(self, subwords_B: Tensor) -> Tensor:
        """The most tokens of a translation, for a pair whose longer side has so many subwords."""
        if not self.relative_length:
            return torch.full_like(subwords_B, self.max_length)
        return ((3 * subwords_B + 1) // 2 + 5).clamp(max=self.max_length)

    def steps(self, subwords: int) -> int:
        """The same on the host, for the longest that a batch of some width may hold."""
        return int(self.limits(torch.tensor(subwords)))


@dataclass(frozen=True)
class AgreementTerms:
    """Sums over the pairs of a batch, not means: divide by all rows of the update.

    `counts` are what `COUNTS` names, without gradient.
    """

    loss: Tensor
    encoder_loss: Tensor
    counts: Mapping[str, Tensor]


def agreement(
    model: Seq2Seq, inputs: AgreementInputs, settings: AgreementSettings
) -> AgreementTerms:
    """The disagreement of both sides of every pair about its translation."""
    zero = model.output_weight.new_zeros((), requires_grad=True)
    if not inputs.pairs:  # one process's share of a small last batch may be empty
        return AgreementTerms(zero, zero, dict.fromkeys(COUNTS, zero.detach()))
    first, second = _encode(model, inputs)
    encoder_loss = encoder_agreement(first, second, inputs) if settings.encodings else zero
    readings = []
    if settings.translations:
        run = _one_sided if inputs.one_sided else _two_sided
        readings = run(model, first, second, inputs, settings)
    loss = sum((reading.loss for reading in readings), start=zero)
    counts_K = sum((reading.counts_K for reading in readings), start=zero.new_zeros(len(_READ)))
    counts = dict(zip(_READ, counts_K.detach().unbind(), strict=True))
    counts["pairs"] = inputs.weight_B.sum().to(counts_K).detach()
    return AgreementTerms(loss, encoder_loss, counts)


def _encode(model: Seq2Seq, inputs: AgreementInputs) -> tuple[Memory, Memory]:
    """Both halves. A half that never learns is read without a backward pass."""
    half = inputs.pairs
    rows = inputs.sentences_RS, inputs.lengths_R, inputs.language_R
    if not inputs.one_sided:
        memory = model.encode(*rows)
        return memory.map(lambda tensor: tensor[:half]), memory.map(lambda tensor: tensor[half:])
    with torch.no_grad():
        teacher = model.encode(*(each[:half] for each in rows))
    return teacher, model.encode(*(each[half:] for each in rows))


def encoder_agreement(first: Memory, second: Memory, inputs: AgreementInputs) -> Tensor:
    """The sum of 1 - cosine of both sides' encodings, max-pooled over real positions."""
    first_BD, second_BD = (
        _stopped(_pooled(memory), live_B)
        for memory, live_B in zip((first, second), inputs.live_R.chunk(2), strict=True)
    )
    cosine_B = functional.cosine_similarity(first_BD, second_BD, dim=1)
    return torch.dot(1 - cosine_B, inputs.weight_B.to(cosine_B))


def _pooled(memory: Memory) -> Tensor:
    encoding_BSD = memory.encoding
    exact_BSD = encoding_BSD.to(torch.promote_types(encoding_BSD.dtype, torch.float32))
    return exact_BSD.masked_fill(~memory.mask_BS.unsqueeze(2), float("-inf")).amax(dim=1)


def weight_at(step: int, *, weight: float, start: int, ramp: int = 0) -> float:
    """The weight of agreement in an update, counted from 1: none up to `start`, all after `ramp`
    steps more. Where it is 0, agreement must not be computed at all."""
    if step <= start:
        return 0.0
    return weight * min(1.0, (step - start) / ramp) if ramp else weight


@dataclass(frozen=True)
class _Reading:
    """Translations of some rows as other rows score them: the loss and what is counted."""

    loss: Tensor
    counts_K: Tensor


def _one_sided(
    model: Seq2Seq,
    teacher: Memory,
    pupil: Memory,
    inputs: AgreementInputs,
    settings: AgreementSettings,
) -> list[_Reading]:
    """The first half teaches, without gradient throughout; the second half learns."""
    pairs = _Pairs(model, inputs, settings)
    with torch.no_grad():
        taught = pairs.translate(teacher)
    learnt_BTD = pairs.read(pupil, taught)
    readings = [pairs.score(taught, learnt_BTD)]
    if settings.soft:
        with torch.set_grad_enabled(torch.is_grad_enabled() and inputs.judged_learn):
            said = pairs.translate(pupil)
        with torch.no_grad():
            judged_BTD = pairs.read(teacher, said)
        readings.append(pairs.score(said, judged_BTD))
    return readings


def _two_sided(
    model: Seq2Seq,
    first: Memory,
    second: Memory,
    inputs: AgreementInputs,
    settings: AgreementSettings,
) -> list[_Reading]:
    """All rows translate and score at once; rows that are not live are stopped one by one."""
    half = inputs.pairs
    pairs = _Pairs(model, inputs, settings, times=2)
    said = pairs.translate(first.join(second))
    judged_RTD = pairs.read(second.join(first), said, inputs.live_R)
    live_R, live_judge_R = inputs.live_R, inputs.live_R.roll(half, 0)
    if not inputs.judged_learn:
        live_R = live_R & live_judge_R
    return [pairs.score(said, judged_RTD, live_R, live_judge_R)]


class _Pairs:
    """The pairs of a batch, one row each or, with `times` 2, one for either side."""

    def __init__(
        self,
        model: Seq2Seq,
        inputs: AgreementInputs,
        settings: AgreementSettings,
        times: int = 1,
    ) -> None:
        self.model = model
        self.settings = settings
        lengths_2B = inputs.lengths_R.view(2, -1)
        subwords_B = (lengths_2B.amax(dim=0) - 2).clamp(min=0)  # without tag and end
        self.limits_B = settings.limits(subwords_B).repeat(times)
        self.steps = settings.steps(inputs.sentences_RS.shape[1] - 2)
        # The mean length of both sides, the end of sentence counted as it is in translations.
        self.reference_B = (lengths_2B.sum(dim=0) / 2 - 1).repeat(times)
        self.weight_B = inputs.weight_B.repeat(times)
        self.auxiliary_B = inputs.auxiliary_B.repeat(times)

    def translate(self, memory: Memory) -> Translations:
        """Into the auxiliary language that the memory's tags ask for."""
        return generate(
            self.model,
            memory,
            self.limits_B,
            self.steps,
            decoding=self.settings.decoding,
            temperature=self.settings.temperature,
            dropout=self.settings.dropout,
            feedback_gradient=self.settings.feedback_gradient,
            all_steps=self.settings.fixed_length,
        )

    def read(self, memory: Memory, said: Translations, live_B: Tensor | None = None) -> Tensor:
        """Hidden vectors of other rows that are made to say the same.

        Mixtures belong to who said them; the vectors of plain tokens belong to the reader.
        """
        if self.settings.soft:
            vectors_BTD = said.vectors_BTD
            if live_B is not None:
                vectors_BTD = _stopped(vectors_BTD, live_B)
            inputs_BTD = shift_right(vectors_BTD)
        else:
            inputs_BTD = self.model.shifted_embeddings(said.tokens_BT)
        return self.model.decode(memory, inputs_BTD, dropout=False)

    def score(
        self,
        said: Translations,
        judged_BTD: Tensor,
        live_B: Tensor | None = None,
        live_judge_B: Tensor | None = None,
    ) -> _Reading:
        """Compare what was said with what the other rows would have said in the same place."""
        weight_B = self.weight_B
        if not self.settings.soft and live_judge_B is not None:
            weight_B = weight_B * live_judge_B  # tokens teach nobody else
        real_BT = said.real_BT.to(weight_B.dtype) * weight_B.unsqueeze(1)
        degenerate_B = self._degenerate(said)
        counted_BT = self._counted(said)
        weights_BT = counted_BT.to(weight_B.dtype) * weight_B.unsqueeze(1)
        if not self.settings.soft:
            weights_BT = weights_BT * ~degenerate_B.unsqueeze(1)
        if self.settings.normalize == "token":
            weights_BT = weights_BT / counted_BT.sum(dim=1).clamp(min=1).unsqueeze(1)
        wanted = said.hidden_BTD if self.settings.soft else said.tokens_BT
        loss, found_N = dense_cross_entropy(
            wanted.flatten(0, 1),
            judged_BTD.flatten(0, 1),
            self.model.output_weight,
            weights_BT.flatten(),
            live_wanted_N=_spread(live_B, said),
            live_scorer_N=_spread(live_judge_B, said),
            temperature=self.settings.temperature,
            divergence=self.settings.measure == "kl",
            chunk=self.settings.chunk,
        )
        return _Reading(loss, self._counts(said, found_N, weight_B, real_BT, degenerate_B))

    def _counted(self, said: Translations) -> Tensor:
        """The positions that the loss is made of; dials and filters know real ones only."""
        if not self.settings.fixed_length:
            return said.real_BT
        steps_T = torch.arange(said.real_BT.shape[1], device=said.real_BT.device)
        return steps_T < self.limits_B.unsqueeze(1)

    def _counts(
        self,
        said: Translations,
        found_N: Tensor,
        weight_B: Tensor,
        real_BT: Tensor,
        degenerate_B: Tensor,
    ) -> Tensor:
        counts = [
            torch.dot(found_N, real_BT.flatten().to(found_N)),
            (said.entropy_BT * real_BT).sum(),
            real_BT.sum(),
            torch.dot(self.reference_B.to(weight_B), weight_B),
            torch.dot(said.ended().to(weight_B), weight_B),
            torch.dot(self._right_language(said).to(weight_B), weight_B),
            torch.dot(degenerate_B.to(weight_B), weight_B),
            weight_B.sum(),
        ]
        return torch.stack([count.to(found_N).detach() for count in counts])

    def _degenerate(self, said: Translations) -> Tensor:
        """Whether each translation repeats itself, is too short, or did not end where it should.

        One that was cut off at the most tokens of all, as those of long sentences are, has neither
        the one nor the other fault.
        """
        ended_B, least_B = said.ended(), self.settings.least_length * self.reference_B - 1
        short_B = ended_B & (said.lengths() < least_B)
        endless_B = ~ended_B & (self.limits_B < self.settings.max_length)
        repeating_B = said.distinct_bigrams() < self.settings.distinct_bigrams
        return short_B | endless_B | repeating_B

    def _right_language(self, said: Translations) -> Tensor:
        """Whether no other language's text has these tokens more often."""
        if self.settings.unigrams_LV is None:
            return torch.zeros_like(self.auxiliary_B)
        log_p_LBT = self.settings.unigrams_LV[:, said.tokens_BT]
        likely_B = (log_p_LBT * said.real_BT).sum(dim=2).argmax(dim=0)
        return likely_B == self.auxiliary_B


def _stopped(rows: Tensor, live_R: Tensor) -> Tensor:
    """The same values; gradients flow back into live rows only."""
    shape = [-1] + [1] * (rows.dim() - 1)
    return torch.where(live_R.view(shape), rows, rows.detach())


def _spread(live_B: Tensor | None, said: Translations) -> Tensor | None:
    """A flag for every position of a row; None stands for all."""
    if live_B is None:
        return None
    return live_B.unsqueeze(1).expand_as(said.real_BT).flatten()
