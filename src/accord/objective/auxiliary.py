"""The choice of the auxiliary language: which third language the two sides of a pair agree in.

It is drawn on the host, with random numbers of its own, so that it disturbs no others. Every
example's draw follows from seed, position and its place in the update alone: neither the number of
processes nor the number of micro-batches changes it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from accord.corpus.batches import Batch, Int16s, Position
from accord.errors import AccordError
from accord.graph import TranslationGraph

Law = Literal["zero-shot", "all", "non-english"]
Protection = Literal["supervised", "none"]
Bools = npt.NDArray[np.bool_]

NONE = -1  # instead of a language: nothing to agree in
_STREAM = 0x41475245  # keeps these random numbers apart from others of the same seed
_ENGLISH = ("en", "eng")


class AuxiliaryLanguages:
    """Draws auxiliary languages, and knows through which directions gradients may flow.

    `zero-shot`: languages outside the pair into which at least one of its sides has no data.
    `all`: every language, the pair's own included (the paper). `non-english`: all but English (the
    authors' release). `protect` says whether supervised directions are shielded from gradients.
    """

    def __init__(
        self,
        graph: TranslationGraph,
        tags: Mapping[str, int],
        *,
        law: Law = "zero-shot",
        protect: Protection = "supervised",
    ) -> None:
        self.graph = graph
        self.law: Law = law
        self.protect: Protection = protect
        self.tags_L = np.array([tags[language] for language in graph.languages], dtype=np.int32)
        size = len(graph.languages)
        self._supervised_LL = np.zeros((size, size), dtype=np.bool_)
        self._counts_LL = np.zeros((size, size), dtype=np.int64)
        self._choices_LLK = np.full((size, size, size), NONE, dtype=np.int16)
        for direction in graph.supervised_directions:
            source, target = map(graph.languages.index, direction)
            choices = [graph.languages.index(x) for x in self.candidates(*direction)]
            self._supervised_LL[source, target] = True
            self._counts_LL[source, target] = len(choices)
            self._choices_LLK[source, target, : len(choices)] = choices
        self._check_useful()

    def candidates(self, source: str, target: str) -> tuple[str, ...]:
        """The languages that a pair may be asked to agree in, each as likely as the others."""
        languages = self.graph.languages
        if self.law == "all":
            return languages
        if self.law == "non-english":
            return tuple(x for x in languages if x.split("_")[0] not in _ENGLISH)
        return tuple(
            x
            for x in languages
            if x not in (source, target)
            and not (self.graph.is_supervised(source, x) and self.graph.is_supervised(target, x))
        )

    @cached_property
    def one_sided(self) -> bool:
        """Whether gradients can reach at most one side of a pair, whatever is drawn.

        So it is with English-centric data. Then the other side needs no backward pass.
        """
        return all(
            sum(self.is_live(side, auxiliary) for side in direction) < 2
            for direction in self.graph.supervised_directions
            for auxiliary in self.candidates(*direction)
        )

    def is_live(self, language: str, auxiliary: str) -> bool:
        """Whether agreement may change the direction from `language` into `auxiliary`."""
        return self.protect == "none" or not self.graph.is_supervised(language, auxiliary)

    def live(self, language_B: Int16s, auxiliary_B: Int16s) -> Bools:
        """`is_live` of many; false where there is no auxiliary language."""
        drawn_B: Bools = auxiliary_B != NONE
        if self.protect == "none":
            return drawn_B
        live_B: Bools = drawn_B & ~self._supervised_LL[language_B, auxiliary_B]
        return live_B

    def draw(
        self, batch: Batch, *, seed: int, position: Position, rank: int = 0, world_size: int = 1
    ) -> Int16s:
        """An auxiliary language for every row of a process's batch, `NONE` where none is useful.

        `position` is any that identifies the batch, for example the one that comes with it.
        """
        key: Sequence[int] = (seed, position.epoch, position.batch, _STREAM)
        words = np.random.Philox(np.random.SeedSequence(key)).random_raw(batch.update_rows)
        pairs_B = batch.source_language_B, batch.target_language_B
        counts_B = self._counts_LL[pairs_B]
        picks_B = words[rank::world_size] % np.maximum(counts_B, 1).astype(np.uint64)
        drawn_B: Int16s = self._choices_LLK[(*pairs_B, picks_B.astype(np.int64))]
        return drawn_B

    def _check_useful(self) -> None:
        useful = (
            self.is_live(side, auxiliary)
            for direction in self.graph.supervised_directions
            for auxiliary in self.candidates(*direction)
            for side in direction
        )
        if not any(useful):
            raise AccordError(
                "no corpus has a language outside its pair with a zero-shot direction into it, "
                "so there is nothing to agree on",
                where="objective.agreement",
                fix="add languages, or set objective.agreement.weight to 0",
            )
