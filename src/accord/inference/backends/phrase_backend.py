"""The phrase-based backend: a run with one system for each direction that has data.

Systems are opened when a direction is first asked for, and stay. Directions without data are
translated through a pivot, which is the translator's work.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from accord.errors import AccordError
from accord.graph import Direction
from accord.inference.backends.base import Backend, LoadSettings
from accord.inference.results import NOTHING, Hypothesis, SearchSettings, Translation
from accord.inference.text import mended
from accord.phrases.decoder import Found, PhraseDecoder
from accord.phrases.train import directory_of, open_decoder
from accord.run_directory import RunDirectory

_DEFAULT = LoadSettings()
_NOTHING = replace(NOTHING, log_probability=None)


class PhraseBackend(Backend):
    """Phrase-based systems of a run directory.

    There is one hypothesis per text. Its score is that of the log-linear model, which is no
    probability, so no log-probability is told. Of the settings of a search none applies: a system
    is tuned for its own.
    """

    needs_source = True
    has_likelihood = False
    reads_search_settings = False

    def __init__(self, run: Path, settings: LoadSettings = _DEFAULT) -> None:
        _check(run, settings)
        directory = RunDirectory(run)
        experiment = directory.experiment()
        self._run, self._model = run, experiment.model
        self._threads = settings.threads or 1
        self.graph = experiment.graph
        self.vocabulary = directory.vocabulary()
        self.directions = experiment.graph.supervised
        self._systems: dict[Direction, PhraseDecoder] = {}

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        settings: SearchSettings,
        source: str | None = None,
    ) -> list[Translation]:
        """Direct translations, by the system of the direction."""
        clean = [mended(text) for text in texts]
        wanted = sorted({text for text in clean if text})
        found = dict(zip(wanted, self._system(source, to).translate(wanted), strict=True))
        return [
            Translation(text, (_hypothesis(found[read]) if read else _NOTHING,))
            for text, read in zip(texts, clean, strict=True)
        ]

    def _system(self, source: str | None, target: str) -> PhraseDecoder:
        if source is None or (source, target) not in self.graph.supervised:
            raise AccordError(
                f"a phrase-based run has no system from {source or 'an unknown language'} into "
                f"{target}",
                where=str(self._run),
                fix="name the source language (--from), and translate through a pivot (--via auto)",
            )
        direction = Direction(source, target)
        if direction not in self._systems:
            directory = directory_of(self._run, direction)
            self._systems[direction] = open_decoder(directory, self._model, self._threads)
        return self._systems[direction]

    def check_ensembles(self) -> None:
        """They are not to be had: nothing here gives the probability of a next word."""
        raise AccordError(
            "a phrase-based run cannot translate by an ensemble",
            where=str(self._run),
            fix="translate directly, or through a pivot (--via auto)",
        )

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str, source: str | None = None
    ) -> list[tuple[float, int]]:
        """Not to be had."""
        raise AccordError(
            "a phrase-based run translates, but cannot say how likely a given translation is",
            where=str(self._run),
            fix="use a run of another model.kind",
        )

    def close(self) -> None:
        """Let go of the tables."""
        self._systems.clear()


def _check(run: Path, settings: LoadSettings) -> None:
    """Refuse choices that there are not: what is best is also last, and computes on the CPU."""
    offered = {
        "checkpoint": ("best", "last"),
        "device": (None, "cpu"),
        "precision": ("auto", "fp32"),
    }
    for what, values in offered.items():
        if (asked := getattr(settings, what)) not in values:
            raise AccordError(
                f"a phrase-based run has no choice of {what}: {asked!r} was asked for",
                where=str(run),
                fix="leave it out",
            )


def _hypothesis(found: Found) -> Hypothesis:
    return Hypothesis(found.text, found.words, (), found.score, None, ())
