"""One search over several sources of each sentence: what all of them find likely.

The sources are different sentences that mean the same, such as a sentence and its translation into
a pivot language, or both sides of a pair. A translation's log P is the weighted mean of its log P
given each source; see `accord.inference.beam_step` for why that needs no normalisation.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from accord.data.vocabulary import EOS
from accord.inference.backtrace import Found
from accord.inference.beam_search import BeamSearch, TorchEngine, padded
from accord.inference.ensemble import shares
from accord.inference.results import Reading, SearchSettings, Translation
from accord.inference.text import Decoder, batches, mended

_CPU = torch.device("cpu")


Rows = Sequence[Sequence[int]]


class EnsembleSearch:
    """A search with fixed settings and weights, one a source. Use it again rather than anew.

    A source of weight 0 is not read. `settings.batch_tokens` counts the subwords of all sources.
    """

    def __init__(
        self,
        engine: TorchEngine,
        settings: SearchSettings,
        forbidden: Sequence[int],
        weights: Sequence[float],
    ) -> None:
        self._engine = engine
        self._weights = shares(weights)
        used = tuple(weight for weight in self._weights if weight)
        forbidden_F = torch.tensor(forbidden, dtype=torch.int64, device=engine.device)
        self._search = BeamSearch(engine.model, settings, forbidden_F, weights=used)
        self._settings = replace(
            settings,
            batch_tokens=max(1, settings.batch_tokens // len(used)),
            beam=settings.beam * len(used),
        )

    def __call__(
        self, sources: Sequence[Rows], languages: Sequence[int] | None = None
    ) -> list[list[Found]]:
        """The hypotheses of every sentence, the best first.

        `sources[m][i]` is the m-th source of sentence i: tag, subwords, end. The tags of a sentence
        should ask for one language. Alignments are with the first source that is read. `languages`
        numbers that of each source, for models that read it.
        """
        read = [rows for rows, weight in zip(sources, self._weights, strict=True) if weight]
        told = zip(languages or (), self._weights, strict=False)
        known = [language for language, weight in told if weight]
        lengths = [max(map(len, rows)) for rows in zip(*read, strict=True)]
        found: list[list[Found]] = [[] for _ in lengths]
        for batch in batches(lengths, lambda n: self._engine.fitting(n, self._settings)):
            stacked = padded([rows[i] for rows in read for i in batch], _CPU)
            language_B = torch.tensor(known).repeat_interleave(len(batch)) if known else None
            with self._engine.precision():
                searched = self._search(*stacked, language_B=language_B)
            for i, hypotheses in zip(batch, searched, strict=True):
                found[i] = hypotheses
        return found


class EnsembleDecoder:
    """Translates texts that there are several of: `sources[m][i]` is the m-th text of line i."""

    def __init__(self, decoder: Decoder, engine: TorchEngine) -> None:
        self._decoder = decoder
        self._engine = engine
        self._searches: dict[tuple[object, ...], EnsembleSearch] = {}

    def translate(
        self,
        sources: Sequence[Sequence[str]],
        target: str,
        weights: Sequence[float],
        settings: SearchSettings,
        languages: Sequence[str | None] | None = None,
    ) -> list[Translation]:
        """Translations of the lines, in order; they name the first text of a line as its source.

        `languages[m]` is the language of the m-th texts; a model that reads it needs all of them.

        A search needs all texts of a line, in one piece each. Where one is empty or longer than
        `settings.window`, the first alone is translated, and a warning says so.
        """
        vocabulary, first = self._decoder.vocabulary, sources[0]
        rows = [vocabulary.encode([mended(text) for text in texts]) for texts in sources]
        whole = [
            line
            for line, texts in enumerate(zip(*rows, strict=True))
            if all(0 < len(row) <= settings.window for row in texts)
        ]
        tag = vocabulary.tags[target]
        inputs = [[[tag, *member[line], EOS] for line in whole] for member in rows]
        told = [language for language in languages or () if language is not None]
        known = [vocabulary.languages.index(language) for language in told]
        found = self._search_for(target, weights, settings)(
            inputs, known if len(known) == len(sources) else None
        )
        together = self._decoder.translations([first[line] for line in whole], found, settings)
        by_line = {
            line: replace(item, ensemble=_readings([texts[line] for texts in sources], weights))
            for line, item in zip(whole, together, strict=True)
        }
        rest = [line for line in range(len(first)) if line not in by_line]
        alone = self._decoder.translate(
            [first[line] for line in rest], target, settings, languages[0] if languages else None
        )
        by_line |= {line: _warned(t, settings) for line, t in zip(rest, alone, strict=True)}
        return [by_line[line] for line in range(len(first))]

    def _search_for(
        self, target: str, weights: Sequence[float], settings: SearchSettings
    ) -> EnsembleSearch:
        restricted = target if settings.vocabulary == "target" else None
        key = (settings, tuple(weights), restricted)
        if key not in self._searches:
            forbidden = self._decoder.forbidden(restricted)
            self._searches[key] = EnsembleSearch(self._engine, settings, forbidden, weights)
        return self._searches[key]


def _readings(texts: Sequence[str], weights: Sequence[float]) -> tuple[Reading, ...]:
    return tuple(Reading(*pair) for pair in zip(texts, shares(weights), strict=True))


def _warned(translation: Translation, settings: SearchSettings) -> Translation:
    if not translation.source.strip():
        return translation
    alone = (
        f"a text of the ensemble is empty or has more than {settings.window} subwords: "
        "translated by the first member alone"
    )
    return replace(translation, warnings=(alone, *translation.warnings))
