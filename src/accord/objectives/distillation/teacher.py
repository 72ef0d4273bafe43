"""The model that translates training sentences: its own copy, which learns nothing here."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from accord.config.objectives import CompleteSearch
from accord.data.batches import ranges
from accord.data.vocabulary import EOS, Vocabulary
from accord.graph import Direction
from accord.inference.backtrace import Found
from accord.inference.beam_search import BeamSearch, TorchEngine, padded
from accord.inference.results import SearchSettings
from accord.inference.scoring import cross_entropies, likeliest
from accord.inference.text import Decoder, TokenCounts, batches
from accord.models.base import Seq2Seq
from accord.objectives.base import Cancelled
from accord.objectives.distillation.soft_targets import LikelyTokens

_CPU = torch.device("cpu")
Subwords = Sequence[int]


@dataclass(frozen=True)
class Wanted:
    """A sentence to be translated, the other one of its pair, the languages of both, the language
    to translate into, and the most subwords that may take."""

    source: Subwords
    pupil: Subwords
    read: tuple[str, str]
    language: str
    limit: int


class Teacher:
    """Translates and scores subwords in large batches; `stopped` is asked between two of them.

    With `vote`, each token is chosen by the weighted mean of what both sentences of a pair say. The
    model must not be used elsewhere meanwhile.
    """

    def __init__(
        self,
        model: Seq2Seq,
        vocabulary: Vocabulary,
        device: torch.device,
        search: CompleteSearch,
        *,
        bf16: bool = False,
        vote: float = 0.0,
        token_counts: TokenCounts | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.model = model.eval().requires_grad_(False).to(device)
        self.settings = SearchSettings(
            beam=search.beam,
            nbest=search.nbest,
            vocabulary=search.vocabulary,
            batch_tokens=search.batch_tokens,
        )
        self.tags = vocabulary.tags
        self._numbers = {language: i for i, language in enumerate(vocabulary.languages)}
        self.device = device
        self.bf16 = bf16
        self.weights = (1.0 - vote, vote) if vote else (1.0,)
        self.engine = TorchEngine(self.model, device, bf16=bf16)
        self.decoder = Decoder(self.engine, vocabulary, token_counts)
        self._scored_at_once = search.batch_tokens
        if device.type == "cpu":  # more are no faster, and take much memory
            self._scored_at_once = min(search.batch_tokens, 16_384)
        self._searches: dict[str | None, BeamSearch] = {}
        self._stopped = stopped

    def translate(self, wanted: Sequence[Wanted]) -> list[list[Found]]:
        """The best translations of every sentence, the best first."""
        found: list[list[Found]] = [[] for _ in wanted]
        for language, group in self._groups(wanted).items():
            lengths = [self._length(wanted[i]) for i in group]
            for batch in batches(lengths, self._rows):
                self._check()
                chosen = [group[place] for place in batch]
                hypotheses = self._search([wanted[i] for i in chosen], language)
                for i, of_sentence in zip(chosen, hypotheses, strict=True):
                    found[i] = of_sentence
        return found

    def likely(
        self, wanted: Sequence[Wanted], chosen: Sequence[Subwords], count: int
    ) -> LikelyTokens:
        """The likeliest tokens at every place of these translations, their ends included."""
        ends = [[*target, EOS] for target in chosen]
        lengths_N = np.array([len(target) for target in ends], dtype=np.int64)
        begins_N = np.cumsum(lengths_N) - lengths_N
        token_MK = np.empty((int(lengths_N.sum()), count), dtype=np.uint16)
        share_MK = np.empty(token_MK.shape, dtype=np.float16)
        for language, group in self._groups(wanted).items():
            named = likeliest(
                self.model,
                self._members([wanted[i] for i in group]),
                [ends[i] for i in group],
                weights=self.weights,
                forbidden_F=self._forbidden(language),
                count=count,
                device=self.device,
                batch_tokens=self._scored_at_once,
                languages=self._read([wanted[i] for i in group]),
            )
            with self.engine.precision():
                for batch, *found in named:
                    self._check()
                    some = [group[place] for place in batch]
                    places_M = ranges(begins_N[some], lengths_N[some])
                    token_MK[places_M], share_MK[places_M] = (each.cpu().numpy() for each in found)
        return LikelyTokens(token_MK, share_MK)

    def log_probabilities(
        self,
        sources: Sequence[Subwords],
        directions: Sequence[Direction],
        targets: Sequence[Subwords],
    ) -> list[float]:
        """log P of every target, its end included, as a translation of its source."""
        rows = [
            [self.tags[direction.target], *source, EOS]
            for direction, source in zip(directions, sources, strict=True)
        ]
        languages = [self._numbers[direction.source] for direction in directions]
        ends = [[*target, EOS] for target in targets]
        found: list[float] = []
        with self.engine.precision():
            for start in range(0, len(rows), _AT_ONCE):
                self._check()
                part = slice(start, start + _AT_ONCE)
                found += cross_entropies(
                    self.model,
                    rows[part],
                    ends[part],
                    device=self.device,
                    batch_tokens=self._scored_at_once,
                    languages=languages[part],
                )
        return [-value for value in found]

    def _length(self, item: Wanted) -> int:
        longest = max(len(item.source), len(item.pupil) if len(self.weights) > 1 else 0)
        return longest + 2

    def _rows(self, longest: int) -> int:
        return max(1, self.engine.fitting(longest, self.settings) // len(self.weights))

    def _search(self, wanted: Sequence[Wanted], language: str | None) -> list[list[Found]]:
        if language not in self._searches:
            self._searches[language] = BeamSearch(
                self.model, self.settings, self._forbidden(language), weights=self.weights
            )
        rows = [row for member in self._members(wanted) for row in member]
        limits_B = torch.tensor([item.limit for item in wanted])
        language_B = torch.tensor(self._read(wanted)).flatten()
        with self.engine.precision():
            return self._searches[language](*padded(rows, _CPU), limits_B, language_B)

    def _members(self, wanted: Sequence[Wanted]) -> list[list[list[int]]]:
        """Encoder inputs: those of all sentences and, where these vote, those of all pupils."""
        sides = [[item.source for item in wanted], [item.pupil for item in wanted]]
        return [
            [[self.tags[w.language], *ids, EOS] for w, ids in zip(wanted, side, strict=True)]
            for side in sides[: len(self.weights)]
        ]

    def _read(self, wanted: Sequence[Wanted]) -> list[list[int]]:
        """The numbers of the languages of all that `_members` gives."""
        sides = range(len(self.weights))
        return [[self._numbers[item.read[side]] for item in wanted] for side in sides]

    def _groups(self, wanted: Sequence[Wanted]) -> dict[str | None, list[int]]:
        """What can be searched together: all, unless languages have vocabularies of their own."""
        groups: dict[str | None, list[int]] = defaultdict(list)
        for i, item in enumerate(wanted):
            groups[item.language if self.settings.vocabulary == "target" else None].append(i)
        return groups

    def _forbidden(self, language: str | None) -> torch.Tensor:
        return torch.tensor(self.decoder.forbidden(language), device=self.device)

    def _check(self) -> None:
        if self._stopped():
            raise Cancelled


_AT_ONCE = 8192  # sentences that are scored between two looks whether to stop
