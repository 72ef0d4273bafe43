"""Toy languages with finitely many sentences, and what truly is a translation of what.

Legend: N sentences, P prefixes, A tokens; a tensor over languages has one N for each of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

END = "."


@dataclass(frozen=True)
class Sentences:
    """All sentences over an alphabet up to some length, the empty one included.

    A sentence is written token by token and closed by the end of sentence, which is a token too;
    only after `longest` letters does it close by itself.
    """

    alphabet: str = "ab"
    longest: int = 2

    @cached_property
    def all(self) -> tuple[str, ...]:
        """Every sentence, the short ones first."""
        lengths = range(self.longest + 1)
        return tuple("".join(x) for n in lengths for x in product(self.alphabet, repeat=n))

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """The beginnings after which a token has to be chosen."""
        return tuple(x for x in self.all if len(x) < self.longest)

    @property
    def tokens(self) -> str:
        """The letters and the end of sentence."""
        return self.alphabet + END

    @cached_property
    def paths(self) -> Tensor:
        """[N, P, A]: 1 for each choice of a token that writing a sentence takes."""
        paths_NPA = torch.zeros(
            len(self.all), len(self.prefixes), len(self.tokens), dtype=torch.float64
        )
        for number, sentence in enumerate(self.all):
            written = (sentence + END)[: self.longest]
            for place, token in enumerate(written):
                prefix = self.prefixes.index(sentence[:place])
                paths_NPA[number, prefix, self.tokens.index(token)] = 1
        return paths_NPA


@dataclass(frozen=True)
class World:
    """The true distribution of tuples of equivalent sentences, one in each language."""

    sentences: Sentences
    joint: Tensor

    @property
    def languages(self) -> int:
        """How many languages there are; they are named 0, 1, ..."""
        return self.joint.dim()

    def marginal(self, *languages: int) -> Tensor:
        """The true distribution of some languages' sentences, in the order given."""
        others = [x for x in range(self.languages) if x not in languages]
        kept = self.joint.sum(dim=others) if others else self.joint
        order = sorted(languages)
        return kept.permute(*(order.index(x) for x in languages))

    def conditional(self, source: int, target: int) -> Tensor:
        """[N, N]: the true probability of a translation; 0 for sources that never occur."""
        pair = self.marginal(source, target)
        return torch.nan_to_num(pair / pair.sum(dim=1, keepdim=True))

    @staticmethod
    def of_meanings(sentences: Sentences, weights_M: Tensor, ways: Sequence[Tensor]) -> "World":
        """Meanings M with their weights, and for each language how they are said, [M, N]."""
        joint = (weights_M / weights_M.sum()).double()
        for way_MN in ways:
            shape = [len(weights_M)] + [1] * (joint.dim() - 1) + [way_MN.shape[1]]
            joint = joint.unsqueeze(-1) * way_MN.double().view(shape)
        return World(sentences, joint.sum(dim=0))

    @staticmethod
    def one_to_one(sentences: Sentences, languages: int, seed: int = 0) -> "World":
        """Every sentence has exactly one translation into every language."""
        generator = torch.Generator().manual_seed(seed)
        count = len(sentences.all)
        weights_M = torch.rand(count, generator=generator) + 0.5
        ways = [
            torch.eye(count)[torch.randperm(count, generator=generator)] for _ in range(languages)
        ]
        return World.of_meanings(sentences, weights_M, ways)

    @staticmethod
    def many_to_many(
        sentences: Sentences, languages: int, meanings: int = 3, seed: int = 0
    ) -> "World":
        """Several ways of saying each of a few meanings, some of them ambiguous."""
        generator = torch.Generator().manual_seed(seed)
        weights_M = torch.rand(meanings, generator=generator) + 0.5
        ways = []
        for _ in range(languages):
            way_MN = torch.rand(meanings, len(sentences.all), generator=generator)
            way_MN = way_MN * (way_MN > way_MN.median(dim=1, keepdim=True).values)
            ways.append(way_MN / way_MN.sum(dim=1, keepdim=True))
        return World.of_meanings(sentences, weights_M, ways)
