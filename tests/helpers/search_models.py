"""Small models to search with, and the same searches written down plainly."""

import functools
import math

import torch
from torch import Tensor

from accord.data.vocabulary import EOS, PAD, Vocabulary, train
from accord.inference.beam_search import TorchEngine
from accord.inference.text import Decoder
from accord.models.base import Memory, ScaledEmbedding, Seq2Seq, State
from accord.models.gnmt import GNMT

V, D = 14, 8
TAGS = [2, 3]


class Mask(Memory):
    """Knows nothing of the source but its length."""

    @property
    def encoding(self) -> Tensor:
        raise NotImplementedError


class Chain(Seq2Seq):
    """Each token depends on the one before only: `probabilities[before]`, PAD before the first.

    At every step all attention is on one source position, which moves on by one.
    """

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.target_embedding = ScaledEmbedding(*probabilities.shape)
        self.target_embedding.weight.data = torch.eye(len(probabilities)).double()
        self.log_p_VV = probabilities.double().log()

    def encode(self, source_BS: Tensor, lengths_B: Tensor, language_B=None) -> Mask:
        return Mask(torch.arange(source_BS.shape[1]) < lengths_B.unsqueeze(1))

    def initial_state(self, memory: Mask, *, beam: int = 1, steps: int = 0) -> State:
        rows, width = memory.mask_BS.shape
        return State(torch.tensor(0), torch.zeros(rows * beam, width))

    def decode(self, memory: Mask, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        raise NotImplementedError

    def embed_target(self, ids: Tensor) -> Tensor:
        return self.log_p_VV[ids]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def step(self, memory, state, input_BD, *, dropout=True):
        width, after = memory.mask_BS.shape[1], state.position + 1
        attention_S = (torch.arange(width) == after % width).double()
        return input_BD, State(after, attention_S.repeat(state.rows, 1))


def chain(**likely: dict[int, float]) -> Chain:
    """A chain of the tokens given as t4={5: 0.5}; `start` is before the first; others must end."""
    table = torch.zeros(V, V)
    table[:, EOS] = 1.0
    for name, row in likely.items():
        before = PAD if name == "start" else int(name[1:])
        table[before] = 0.0
        for token, p in row.items():
            table[before, token] = p
    return Chain(table)


def gnmt(seed: int, *, ends: float = 1.0, feeding: bool = True, size: int = V) -> GNMT:
    """Random weights, large enough for translations that differ; `ends` makes ends likelier."""
    torch.manual_seed(seed)
    model = GNMT(size, D, "gnmt3", input_feeding=feeding).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
        model.target_embedding.weight[EOS] *= ends
    return model


def random_sources(count: int, seed: int = 1) -> list[list[int]]:
    """Tagged sources of many lengths, with both tags among them."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 9, (count,), generator=generator).tolist()
    return [
        [TAGS[i % 2], *torch.randint(4, V, (n,), generator=generator).tolist(), EOS]
        for i, n in enumerate(lengths)
    ]


@torch.no_grad()
def plain_search(
    model: Seq2Seq,
    source: list[int],
    *,
    beam: int,
    alpha: float = 0.6,
    ngram: int = 0,
    limit: int | None = None,
    forbidden: tuple[int, ...] = (PAD, *TAGS),
) -> list[tuple[list[int], float]]:
    """Beam search of one sentence with Python lists: (ids, log P), the best first."""
    limit = 2 * (len(source) - 2) + 50 if limit is None else limit
    memory = model.encode(torch.tensor([source]), torch.tensor([len(source)]))
    alive = [([], 0.0, model.initial_state(memory, steps=limit + 1))]
    ended: list[tuple[list[int], float]] = []

    def score(log_p: float, length: int) -> float:
        return log_p / ((5 + length) / 6) ** alpha

    while alive:
        grown, ends = [], []
        for ids, log_p, state in alive:
            last = torch.tensor([ids[-1] if ids else PAD])
            own = state.map(torch.clone)  # others may go on from the same state
            hidden, after = model.step(memory, own, model.embed_target(last))
            row = torch.log_softmax(model.logits(hidden)[0], dim=0).tolist()
            ends.append((ids, log_p + row[EOS]))
            for token, more in enumerate(row):
                new = [*ids, token]
                grams = [tuple(new[i : i + ngram]) for i in range(len(new) - ngram + 1)]
                repeats = ngram and len(set(grams)) < len(grams)
                possible = token not in (*forbidden, EOS) and not repeats and more > -math.inf
                if possible and len(ids) < limit:
                    grown.append((new, log_p + more, after))
        grown.sort(key=lambda item: -item[1])
        alive = grown[:beam]
        worst = alive[-1][1] if len(alive) == beam else -math.inf
        kept = [end for end in ends if end[1] >= worst and end[1] > -math.inf]
        ended = sorted([*ended, *kept], key=lambda e: -score(e[1], len(e[0]) + 1))
        if ended and (beam == 1 or not alive):
            break
        if ended and score(ended[0][1], len(ended[0][0]) + 1) >= score(alive[0][1], limit + 1):
            break
    return ended


WORDS = "the old cat sees a big house and likes the green dog. ein altes Haus mag Hund".split()
LINES = [" ".join(WORDS[i : i + n]) for n in (1, 3, 7, 2) for i in range(6)]


@functools.cache
def vocabulary() -> Vocabulary:
    """Two languages, 310 subwords."""
    return Vocabulary(train(LINES * 3, ["en", "de"], 310), ["en", "de"])


def decoder(*, ends: float = 1.6) -> Decoder:
    """Random weights over that vocabulary."""
    model = gnmt(1, ends=ends, size=len(vocabulary()))
    return Decoder(TorchEngine(model, torch.device("cpu")), vocabulary())
