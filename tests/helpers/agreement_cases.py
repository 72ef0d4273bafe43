"""Small examples of agreement, and the same computation written out in full."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.data.batches import Batch
from accord.data.vocabulary import EOS
from accord.graph import Direction, TranslationGraph
from accord.models.base import Memory, Seq2Seq, shift_right
from accord.models.gnmt import GNMT
from accord.models.transformer import Transformer
from accord.objectives.agreement.inputs import AgreementInputs, AuxiliaryLanguages
from accord.objectives.agreement.loss import AgreementSettings, AgreementTerms, agreement
from accord.objectives.base import GRADIENT_SQUARES

V, D, STEPS = 31, 8, 6
LANGUAGES = ("en", "de", "fr", "es")
EN, DE, FR, ES = range(4)
TAGS = {language: 2 + i for i, language in enumerate(LANGUAGES)}
BOTH_WAYS = [d for x in LANGUAGES[1:] for d in (("en", x), (x, "en"))]
STAR = TranslationGraph(LANGUAGES, frozenset(Direction(*d) for d in BOTH_WAYS))
# German and French know each other; with Spanish as auxiliary language neither has data.
CHAIN = TranslationGraph(
    LANGUAGES,
    frozenset(
        Direction(*d)
        for one, other in (("en", "de"), ("de", "fr"), ("en", "es"))
        for d in ((one, other), (other, one))
    ),
)
Pair = tuple[int, int, list[int], list[int]]
PAIRS: list[Pair] = [  # English subwords are 10 to 19, others from 20 on
    (EN, DE, [10, 11], [20, 21, 22]),
    (DE, EN, [23], [12]),
    (FR, EN, [24, 25, 26], [13, 14, 15, 16]),
    (EN, ES, [17, 18], [27, 28]),
]
CHAIN_PAIRS: list[Pair] = [
    (DE, FR, [23, 24], [26]),  # both live, into Spanish
    (EN, DE, [10, 11], [20, 21, 22]),  # German live, into Spanish
    (FR, DE, [27, 28, 29], [25]),  # French live, into English
]
CHAIN_DRAWS = [ES, ES, EN]
# The paper's, where it says so, and nothing random.
EXACT = AgreementSettings(
    decoding="continuous",
    measure="cross-entropy",
    normalize="sum",
    max_length=STEPS,
    relative_length=False,
    fixed_length=False,
    temperature=1.0,
    dropout=False,
    feedback_gradient=True,
    distinct_bigrams=0.0,
    least_length=0.0,
    encoder_measure="cosine",
    encoder_temperature=0.1,
)


def batch(pairs: list[Pair]) -> Batch:
    def pad(rows: list[list[int]]) -> np.ndarray:
        width = max(map(len, rows), default=0)
        return np.array([r + [0] * (width - len(r)) for r in rows], np.int32).reshape(
            len(rows), width
        )

    sources = [[2 + target, *s, 1] for _, target, s, _ in pairs]
    targets = [[*t, 1] for *_, t in pairs]
    return Batch(
        pad(sources),
        np.array([len(row) for row in sources], dtype=np.int64),
        pad(targets),
        np.array([len(row) for row in targets], dtype=np.int64),
        np.array([pair[0] for pair in pairs], dtype=np.int16),
        np.array([pair[1] for pair in pairs], dtype=np.int16),
        np.zeros(len(pairs), dtype=np.int16),
        np.arange(len(pairs)),
        update_rows=len(pairs),
        update_target_tokens=sum(map(len, targets)),
    )


def star(
    pairs: list[Pair] = PAIRS, shape: tuple[int, int] | None = None, protect: str = "supervised"
) -> AgreementInputs:
    languages = AuxiliaryLanguages(STAR, TAGS, protect=protect)
    draws = [next(x for x in (FR, ES, DE) if x not in pair[:2]) for pair in pairs]
    return AgreementInputs.of(batch(pairs), np.array(draws, dtype=np.int16), languages, shape)


def chain(protect: str = "supervised") -> AgreementInputs:
    languages = AuxiliaryLanguages(CHAIN, TAGS, protect=protect)
    return AgreementInputs.of(batch(CHAIN_PAIRS), np.array(CHAIN_DRAWS, np.int16), languages)


def make(dropout: float = 0.0, kind: str = "gnmt", **settings: bool) -> Seq2Seq:
    torch.manual_seed(3)
    model: Seq2Seq
    if kind == "gnmt":
        model = GNMT(V, D, dropout=dropout, **settings).double()
    else:
        model = Transformer(V, D, 2, 2, heads=2, feed_forward=12, dropout=dropout).double()
    with torch.no_grad():  # clear choices, and translations of unequal length
        model.target_embedding.weight.mul_(3)
        model.target_embedding.weight[EOS] *= 3
    return model


def gradients(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def run(
    inputs: AgreementInputs, settings: AgreementSettings = EXACT, **kind: Any
) -> tuple[AgreementTerms, dict[str, Tensor]]:
    model = make(**kind)
    terms = agreement(model, inputs, settings)
    (terms.loss + terms.encoder_loss).backward()
    return terms, gradients(model)


# --- the computation written out, with all distributions in memory ---------------------------


def spoken(
    model: Seq2Seq, memory: Memory, feedback: Callable[[Tensor], Tensor] = lambda z: z
) -> tuple[Tensor, Tensor, Tensor]:
    """Distributions, vectors and the mask of continuous translations."""
    state = model.initial_state(memory, steps=STEPS)
    vector = torch.zeros(memory.rows, D, dtype=torch.float64)
    going = torch.ones(memory.rows, dtype=torch.bool)
    found = []
    for _ in range(STEPS):
        hidden, state = model.step(memory, state, feedback(vector), dropout=False)
        p = torch.softmax(model.logits(hidden), dim=1)
        vector = model.embed_mixture(p)
        found.append((p, vector, going))
        going = going & (p.argmax(dim=1) != EOS)
    p, vectors, real = (torch.stack(column, dim=1) for column in zip(*found, strict=True))
    return p, vectors, real


def heard(model: Seq2Seq, memory: Memory, vectors: Tensor) -> Tensor:
    hidden = model.decode(memory, shift_right(vectors), dropout=False)
    return torch.log_softmax(model.logits(hidden), dim=2)


def half_memory(model: Seq2Seq, inputs: AgreementInputs, second: bool) -> Memory:
    rows = slice(inputs.pairs, None) if second else slice(inputs.pairs)
    return model.encode(inputs.sentences_RS[rows], inputs.lengths_R[rows])


def taught(teacher: Seq2Seq, pupil: Seq2Seq, inputs: AgreementInputs) -> Tensor:
    """Term A: the pupil says what the teacher, another model, has said."""
    p, z, real = spoken(teacher, half_memory(teacher, inputs, second=False))
    log_q = heard(pupil, half_memory(pupil, inputs, second=True), z.detach())
    return -((p.detach() * log_q).sum(dim=2) * real).sum()


def judged(teacher: Seq2Seq, pupil: Seq2Seq, inputs: AgreementInputs, cut: bool = False) -> Tensor:
    """Term B: the teacher judges what the pupil says; `cut` stops the pupil's own feedback."""
    feedback = Tensor.detach if cut else lambda z: z
    p, z, real = spoken(pupil, half_memory(pupil, inputs, second=True), feedback)
    log_q = heard(teacher, half_memory(teacher, inputs, second=False), z.detach())
    return -((p * log_q.detach()).sum(dim=2) * real).sum()


def outline(
    model: Seq2Seq, inputs: AgreementInputs, fixed: bool = False, strict: bool = False
) -> Tensor:
    """All rows at once, each stopped where it is not live: any mixture of pairs.

    `fixed`: every position counts. `strict`: what a row that is not live says about a translation
    is stopped as a whole (Algorithm 1, line 8, to the letter).
    """

    def freeze(rows: Tensor, live: Tensor) -> Tensor:
        return torch.where(live.view(-1, 1, 1), rows, rows.detach())

    live, partner = inputs.live_R, inputs.live_R.roll(inputs.pairs)
    memory = model.encode(inputs.sentences_RS, inputs.lengths_R)
    p, z, real = spoken(model, memory)
    other = memory.map(lambda tensor: tensor.roll(inputs.pairs, 0))
    log_q = freeze(heard(model, other, freeze(z, live)), partner)
    counted = torch.ones_like(real) if fixed else real
    rows = -((freeze(p, live) * log_q).sum(dim=2) * counted).sum(dim=1)
    if strict:
        rows = torch.where(partner, rows, rows.detach())
    return (rows * inputs.weight_B.repeat(2)).sum()


def sums_of(terms: AgreementTerms) -> dict[str, Tensor]:
    """All that is added up for the log, by name."""
    losses = {"loss": terms.loss.detach(), "encoder_loss": terms.encoder_loss.detach()}
    zeros = dict.fromkeys(GRADIENT_SQUARES, torch.zeros_like(terms.loss))
    return {**losses, **terms.counts, **zeros}


def numbers_of(terms: AgreementTerms) -> dict[str, float]:
    """The same as plain numbers."""
    return {name: value.item() for name, value in sums_of(terms).items()}
