"""A translation model without any sharing: for each direction and source, a table of choices."""

from collections.abc import Iterable
from itertools import permutations

import torch
from torch import Tensor

from theory.world import Sentences, World

Edge = tuple[int, int]


class Tables:
    """P(x_j | x_i) for all pairs of languages, token by token like any decoder.

    No parameter serves two directions: what holds here does not come from sharing, only from what
    is optimised.
    """

    def __init__(self, sentences: Sentences, languages: int, seed: int = 0, spread: float = 1.0):
        generator = torch.Generator().manual_seed(seed)
        self.sentences = sentences
        self.languages = languages
        size = (len(sentences.all), len(sentences.prefixes), len(sentences.tokens))
        self.logits = {
            edge: spread * torch.randn(size, generator=generator, dtype=torch.float64)
            for edge in permutations(range(languages), 2)
        }

    @property
    def edges(self) -> list[Edge]:
        """All directions."""
        return list(self.logits)

    def parameters(self) -> list[Tensor]:
        """The tables, ready for an optimiser."""
        return [table.requires_grad_() for table in self.logits.values()]

    def token_log_p(self, source: int, target: int) -> Tensor:
        """[N, P, A]: log-probabilities of the next token, for every source and prefix."""
        return torch.log_softmax(self.logits[source, target], dim=2)

    def log_p(self, source: int, target: int) -> Tensor:
        """[N, N]: log P(sentence of `target` | sentence of `source`)."""
        paths = self.sentences.paths.flatten(1)
        return self.token_log_p(source, target).flatten(1) @ paths.T

    def p(self, source: int, target: int) -> Tensor:
        """[N, N]: the same as probabilities; every row sums to 1."""
        return self.log_p(source, target).exp()

    def learn_exactly(self, world: World, edges: Iterable[Edge], doubt: float = 1e-9) -> None:
        """Put the true conditionals into these tables, but for a little `doubt`."""
        for source, target in edges:
            wanted_SN = world.conditional(source, target) + doubt
            mass_SPA = torch.einsum("sn,npa->spa", wanted_SN, self.sentences.paths)
            self.logits[source, target] = mass_SPA.log()
