"""A model that is told the source language, and says a word for it, whatever it reads."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from accord.data.vocabulary import EOS, Vocabulary
from accord.graph import Direction
from accord.models.base import Memory, ScaledEmbedding, Seq2Seq, State

_SURE = 6.0


@dataclass(frozen=True)
class Told(Memory):
    logits_BV: Tensor

    @property
    def encoding(self) -> Tensor:
        return self.logits_BV.unsqueeze(1).expand(-1, self.mask_BS.shape[1], -1)


class LanguageReader(Seq2Seq[Told, State]):
    """Its first token is that of the source language, its second is the end.

    `words` are the tokens. `seen` notes tag and source language of every row that was read.
    """

    reads_source_language = True

    def __init__(self, size: int, words: list[int]) -> None:
        super().__init__()
        self.words = words
        self.seen: set[tuple[int, int]] = set()
        self.target_embedding = ScaledEmbedding(size, size)
        self.target_embedding.weight.data = torch.eye(size)
        logits_LV = _SURE * functional.one_hot(torch.tensor(words), size).float()
        self.logits_LV = nn.Parameter(logits_LV)
        self.register_buffer("end_V", 2 * _SURE * functional.one_hot(torch.tensor(EOS), size))

    def encode(self, source_BS: Tensor, lengths_B: Tensor, language_B=None) -> Told:
        assert language_B is not None, "it must be told"
        assert (language_B.shape, language_B.dtype) == (lengths_B.shape, torch.int64)
        rows = zip(source_BS[:, 0].tolist(), language_B.tolist(), strict=True)
        self.seen |= {row for row in rows if row[0] != EOS}
        mask_BS = torch.arange(source_BS.shape[1]) < lengths_B.cpu().unsqueeze(1)
        return Told(mask_BS.to(source_BS.device), self.logits_LV[language_B])

    def initial_state(self, memory: Told, *, beam: int = 1, steps: int = 0) -> State:
        device = memory.logits_BV.device
        rows, width = memory.mask_BS.shape
        return State(torch.tensor(0, device=device), torch.zeros(rows * beam, width, device=device))

    def decode(self, memory: Told, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        first_BT1 = (inputs_BTD == 0).all(dim=2, keepdim=True)
        return torch.where(first_BT1, memory.logits_BV.unsqueeze(1), self.end_V.float())

    def step(self, memory: Told, state: State, input_RD: Tensor, *, dropout: bool = True):
        beam = state.rows // memory.rows
        logits_RV = memory.logits_BV.repeat_interleave(beam, dim=0)
        hidden_RV = torch.where(state.position == 0, logits_RV, self.end_V.float())
        return hidden_RV, State(state.position + 1, state.attention_BS)


@cache
def _words(vocabulary: Vocabulary) -> list[int]:
    """A subword a language that reads back as itself."""
    texts = vocabulary.decode([[i] for i in range(len(vocabulary))])
    rows = enumerate(vocabulary.encode(texts))
    return [i for i, row in rows if row == [i]][: len(vocabulary.languages)]


def reader(vocabulary: Vocabulary) -> LanguageReader:
    """One that says words of that vocabulary."""
    return LanguageReader(len(vocabulary), _words(vocabulary))


def word(vocabulary: Vocabulary, language: str) -> str:
    """What it says of a language."""
    return vocabulary.decode([[_words(vocabulary)[vocabulary.languages.index(language)]]])[0]


def seen_directions(model: LanguageReader, vocabulary: Vocabulary) -> set[Direction]:
    """From which language into which one it was asked to translate or to score."""
    tagged = {tag: language for language, tag in vocabulary.tags.items()}
    return {Direction(vocabulary.languages[language], tagged[tag]) for tag, language in model.seen}
