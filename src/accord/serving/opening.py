"""The model behind the service: what is asked of it, and the one place where it is opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from accord.graph import TranslationGraph
from accord.search.result import SearchSettings, Translation


class Subwords(Protocol):
    """The part of a vocabulary that shows how a sentence was read."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Subword ids of each text."""

    def pieces(self) -> list[str]:
        """All subwords, in the order of their ids."""


class AnyTranslator(Protocol):
    """Whatever translates; only one thread calls it."""

    @property
    def graph(self) -> TranslationGraph:
        """The languages and the directions between them."""

    @property
    def vocabulary(self) -> Subwords:
        """The subwords."""

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        *,
        via: Sequence[str] | None = None,
        settings: SearchSettings = ...,
    ) -> list[Translation]:
        """Translations in the order of the texts."""


@dataclass(frozen=True)
class Opened:
    """A translator, and what is to be told about it."""

    translator: AnyTranslator
    about: Mapping[str, str | int | None]


def open_translator(
    path: Path,
    *,
    checkpoint: str = "best",
    device: str | None = None,
    threads: int | None = None,
    precision: str = "auto",
) -> Opened:
    """The model in a run directory, or in what `accord export` made of one."""
    from accord.translator import Translator

    translator = Translator(
        path,
        checkpoint=checkpoint,
        device=device,
        threads=threads,
        precision=precision,  # type: ignore[arg-type]  # checked by Translator
    )
    return Opened(translator, _about(path, checkpoint))


def _about(path: Path, checkpoint: str) -> dict[str, str | int | None]:
    from accord.exported.manifest import Manifest, is_exported

    if is_exported(path):
        manifest = Manifest.read(path)
        return {
            "name": manifest.origin.experiment,
            "steps": manifest.origin.step,
            "units": manifest.model.units,
            "precision": manifest.precision,
        }
    from accord.training.run import (
        RunDirectory,
        find_checkpoint,  # imports PyTorch, which an export does without
    )

    run = RunDirectory(path)
    experiment = run.experiment()
    return {
        "name": experiment.name,
        "steps": find_checkpoint(run, checkpoint).step,
        "units": experiment.model.units,
    }
