"""The backend interface: what a `Translator` asks of a loaded model, whatever computes it.

A backend of an exported format is a subclass of `Backend` whose constructor takes the directory,
its manifest and the `LoadSettings`; `loading.BACKENDS` names it. Its module imports the runtime
that it computes with inside functions, and never PyTorch.

A runtime that searches by itself needs no beam search of ours: it gives `inference.text.Decoder` an
engine whose search is the runtime's own, from rows of ids to hypotheses. Mending, batching, cutting
of long lines and n-best lists are the decoder's.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.inference.results import SearchSettings, Translation
from accord.machine import MOST_THREADS
from accord.settings_fields import require

Precision = Literal["auto", "fp32", "bf16"]
# Texts of the same meaning: [m][i] is the m-th text of line i.
ParallelTexts = Sequence[Sequence[str]]


@dataclass(frozen=True)
class LoadSettings:
    """Which weights of a model to load, and where and how to compute with them.

    What each may be is said at `Translator`.
    """

    checkpoint: str = "best"
    device: str | None = None
    threads: int | None = None
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        good = self.threads is None or 1 <= self.threads <= MOST_THREADS
        require("threads", good, self.threads, f"give 1 to {MOST_THREADS}")

    def check_exported(self, path: Path, devices: Sequence[str | None] = (None, "cpu")) -> None:
        """Refuse what an exported model does not offer: it has one set of weights."""
        offered: dict[str, Sequence[str | None]] = {
            "checkpoint": ("best",),
            "device": devices,
            "precision": ("auto",),
        }
        for what, values in offered.items():
            if (asked := getattr(self, what)) not in values:
                raise AccordError(
                    f"an exported model has no choice of {what}: {asked!r} was asked for",
                    where=str(path),
                    fix="leave it out, or use the run that was exported",
                )


class Backend(ABC):
    """A loaded model: its languages, its vocabulary, and translation between all of them."""

    graph: TranslationGraph
    """The languages and the directions between them."""
    vocabulary: Vocabulary
    """Subwords and tags."""
    needs_source: bool = False
    """Whether it must be told the language of what it reads."""
    directions: frozenset[Direction] | None = None
    """Those that it can translate directly; None stands for all. With some, the source language is
    needed as well."""
    has_likelihood: bool = True
    """Whether `cross_entropy` is to be had."""
    reads_search_settings: bool = True
    """Whether `SearchSettings` apply; what has a search of its own reads none of them."""
    step: int = 0
    """The update that its weights are of; 0 where nothing is trained by updates."""
    device_name: str = "cpu"
    """What it computes on, in words."""
    precision_name: str = "fp32"
    """What it computes in."""

    @abstractmethod
    def translate(
        self,
        texts: Sequence[str],
        to: str,
        settings: SearchSettings,
        source: str | None = None,
    ) -> list[Translation]:
        """Direct translations in the order of the texts; an empty text stays empty.

        All texts are in the language `source`; where that is None, they may be in any.
        """

    def check_ensembles(self) -> None:
        """Raise an error where `translate_together` is not to be had, as in an export."""
        raise _only_in_a_run("cannot translate by an ensemble")

    def translate_together(
        self,
        sources: ParallelTexts,
        to: str,
        weights: Sequence[float],
        settings: SearchSettings,
        languages: Sequence[str | None] | None = None,
    ) -> list[Translation]:
        """One translation of all texts of a line, by an ensemble; see `check_ensembles`.

        `languages[m]` is the language of the m-th texts, if it is known.
        """
        raise _only_in_a_run("cannot translate by an ensemble")

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str, source: str | None = None
    ) -> list[tuple[float, int]]:
        """-log P of each reference in nats, and its number of tokens; both include its end.

        All sources are in the language `source`, if it is known.
        """
        raise _only_in_a_run("translates, but cannot say how likely a given translation is")

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """Free what does not go with the object itself; nothing is asked of it afterwards."""


def _only_in_a_run(what: str) -> AccordError:
    return AccordError(f"an exported model {what}", fix="use the run that it was exported from")
