"""A trained or an exported model as a translator: between all its languages, also by pivots."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.inference.backends.base import Backend, LoadSettings, ParallelTexts, Precision
from accord.inference.backends.loading import load_backend
from accord.inference.ensemble import Ensemble, translate_by
from accord.inference.pivot import translate_along
from accord.inference.results import SearchSettings, Translation

_DEFAULT = SearchSettings()


class Translator:
    """A model, ready to translate.

    `path` is a run directory, as `accord train` writes it, or what `accord export` made of one; the
    latter needs the runtime of its format, such as ONNX Runtime, and no PyTorch.

    For a run, `checkpoint` is best (by validation; the last one where there was none), last,
    average, or a name such as step-00001000; the device is a GPU where there is one; `precision`
    auto is bf16 on a GPU and fp32 on a CPU. An exported model has but one set of weights, in the
    precision it was exported in, and computes on the CPU.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        checkpoint: str = "best",
        device: str | None = None,
        threads: int | None = None,
        precision: Precision = "auto",
    ) -> None:
        settings = LoadSettings(checkpoint, device, threads, precision)
        self._backend = load_backend(Path(path), settings)

    @classmethod
    def of(cls, backend: Backend) -> "Translator":
        """A translator for a model that is loaded already."""
        translator = cls.__new__(cls)
        translator._backend = backend
        return translator

    def close(self) -> None:
        """Free what the model holds; nothing can be translated afterwards."""
        self._backend.close()

    @property
    def graph(self) -> TranslationGraph:
        """The languages and the directions between them."""
        return self._backend.graph

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages: each of them can be translated from and into."""
        return self.graph.languages

    @property
    def vocabulary(self) -> Vocabulary:
        """Subwords and tags."""
        return self._backend.vocabulary

    @property
    def directions(self) -> frozenset[Direction] | None:
        """Those that can be translated directly; None stands for all."""
        return self._backend.directions

    @property
    def needs_source(self) -> bool:
        """Whether the language of a text must be given."""
        return self._backend.needs_source or self.directions is not None

    @property
    def has_likelihood(self) -> bool:
        """Whether `cross_entropy` is to be had."""
        return self._backend.has_likelihood

    @property
    def reads_search_settings(self) -> bool:
        """Whether `SearchSettings` apply; what has a search of its own reads none of them."""
        return self._backend.reads_search_settings

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        *,
        source: str | None = None,
        via: str | Sequence[str] | None = None,
        ensemble: Ensemble | str | None = None,
        settings: SearchSettings = _DEFAULT,
    ) -> list[Translation]:
        """Translations into `to`, in the order of the texts; an empty text stays empty.

        Most models need no source language; see `needs_source`. `via` names the languages to pass
        through, one or several; `auto` takes the shortest chain of directions with training data
        from `source`. An `ensemble` such as `direct,via:en` reads a text and its translations into
        pivots at once.
        """
        _check_texts(texts)
        directly = self._backend.translate
        if ensemble is not None:
            members = self._ensemble(ensemble, to, source, via, settings)
            together = self._backend.translate_together
            return translate_by(members, directly, together, texts, to, settings, source)
        path = self._path(to, source, via)
        return translate_along(directly, texts, path, settings, source)

    def translate_together(
        self,
        sources: ParallelTexts,
        to: str,
        *,
        languages: Sequence[str | None] | None = None,
        weights: Sequence[float] | None = None,
        settings: SearchSettings = _DEFAULT,
    ) -> list[Translation]:
        """What several texts of the same meaning agree on, as an ensemble of given texts.

        `sources[m][i]` is the m-th text of line i, `languages[m]` the language of all m-th texts;
        all count the same without `weights`. Only the model of a run can do this, an exported one
        cannot.
        """
        self._check(to)
        self._backend.check_ensembles()
        for texts in sources:
            _check_texts(texts)
        shared = [1.0] * len(sources) if weights is None else list(weights)
        if not sources or len({len(texts) for texts in sources}) > 1 or len(shared) != len(sources):
            raise AccordError(
                f"lists of {', '.join(str(len(texts)) for texts in sources) or 'no'} texts with "
                f"{len(shared)} weights are no ensemble",
                fix="give one list or more, all of one length, and a weight for each list",
            )
        told = [None] * len(sources) if languages is None else list(languages)
        if len(told) != len(sources):
            raise AccordError(
                f"{len(told)} languages are given for {len(sources)} lists of texts",
                fix="give one for each list",
            )
        for source in told:
            self._check_direct(source, to)
        return self._backend.translate_together(sources, to, shared, settings, told)

    def stream(
        self,
        lines: Iterable[str],
        to: str,
        *,
        source: str | None = None,
        via: str | Sequence[str] | None = None,
        ensemble: Ensemble | str | None = None,
        settings: SearchSettings = _DEFAULT,
        at_once: int = 2048,
    ) -> Iterator[Translation]:
        """The same for any number of lines: `at_once` of them are read before any is translated.

        The languages are checked at once, the lines as they are asked for.
        """
        if ensemble is None:
            self._path(to, source, via)
        else:
            self._ensemble(ensemble, to, source, via, settings)
        return self._stream(iter(lines), to, source, via, ensemble, settings, at_once)

    def _stream(
        self,
        lines: Iterator[str],
        to: str,
        source: str | None,
        via: str | Sequence[str] | None,
        ensemble: Ensemble | str | None,
        settings: SearchSettings,
        at_once: int,
    ) -> Iterator[Translation]:
        while texts := list(itertools.islice(lines, at_once)):
            yield from self.translate(
                texts, to, source=source, via=via, ensemble=ensemble, settings=settings
            )

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str, source: str | None = None
    ) -> list[tuple[float, int]]:
        """-log P of each reference in nats, and its number of tokens; both include its end.

        A run can say this, and an export to ctranslate2; one to onnx cannot.
        """
        self._check(to)
        self._check_direct(source, to)
        return self._backend.cross_entropy(sources, references, to, source)

    def _ensemble(
        self,
        ensemble: Ensemble | str,
        to: str,
        source: str | None,
        via: str | Sequence[str] | None,
        settings: SearchSettings,
    ) -> Ensemble:
        if via is not None:
            raise AccordError(
                "a translation goes either by an ensemble or via a pivot",
                fix="name the pivot in the ensemble: direct,via:en",
            )
        if settings.pivot_nbest > 1:
            raise AccordError(
                f"pivot_nbest cannot be {settings.pivot_nbest} in an ensemble",
                fix="leave it at 1: an ensemble reads the best translation into each pivot",
            )
        self._backend.check_ensembles()
        self._path(to, source, None)
        members = Ensemble.parse(ensemble) if isinstance(ensemble, str) else ensemble
        members.check(self.languages, source, to)
        for pivot in members.pivots:
            self._path(to, source, pivot)
        return members

    def _path(
        self, to: str, source: str | None, via: str | Sequence[str] | None
    ) -> tuple[str, ...]:
        """The languages to translate into, one after the other."""
        self._check(to)
        if source is not None:
            self._check(source)
        if via == "auto":
            return self._shortest(source, to)
        pivots = (via,) if isinstance(via, str) else tuple(via or ())
        path = (*pivots, to)
        for before, language in zip((source, *path), path, strict=False):
            self._check(language)
            if before == language:
                raise AccordError(
                    f"a translation from {language} into {language} was asked for",
                    fix="name each language once on the way from source to target",
                )
            self._check_direct(before, language)
        return path

    def _check_direct(self, source: str | None, to: str) -> None:
        """Refuse a leg without a source that is needed, or that there is no model for."""
        if source is not None:
            self._check(source)
        elif self.needs_source:
            raise self._no_source()
        directions = self.directions
        if directions is None or (source, to) in directions:
            return
        path = self.pivot_path(str(source), to)
        there = ", ".join(str(d) for d in self.graph.directions if d in directions)
        raise AccordError(
            f"there is no direct model for {source}-{to}",
            fix=f"pass through {', '.join(path[1:-1])} (--via auto)"
            if path
            else f"translate {there}, or chain some of them (--via)",
        )

    def _no_source(self) -> AccordError:
        return AccordError(
            "this model must be told the language of the text",
            fix=f"give the source language (--from), one of {', '.join(self.languages)}",
        )

    def pivot_path(self, source: str, to: str) -> tuple[str, ...] | None:
        """The shortest chain of directions with data that can be translated, both ends included."""
        return self.graph.within(self.directions).pivot_path(source, to)

    def _shortest(self, source: str | None, to: str) -> tuple[str, ...]:
        if source is None:
            raise AccordError(
                "a way through the graph needs to know where it begins",
                where="via auto",
                fix="give the source language (--from)",
            )
        path = self.pivot_path(source, to)
        if path is None:
            raise AccordError(
                f"no chain of training data leads from {source} to {to}",
                fix="translate directly, or name the pivot language",
            )
        return path[1:]

    def _check(self, language: str) -> None:
        known = self.languages
        if language not in known:
            raise AccordError(
                f"the model does not know the language '{language}'",
                fix=f"use one of {', '.join(known)}",
            )


def _check_texts(texts: Sequence[str]) -> None:
    """A text is a sequence of texts, too, of one letter each; nobody wants these translated."""
    if isinstance(texts, str):
        raise AccordError(
            f"a list of texts is to be translated, not the text {texts[:40]!r}",
            fix="put it into a list: ['...']",
        )
