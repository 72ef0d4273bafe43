"""An exported directory, loaded: what computes behind a `Translator` without PyTorch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accord.corpus.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.exported.engine import OnnxEngine
from accord.exported.manifest import Manifest
from accord.exported.sessions import Sessions
from accord.search.decoding import Decoder
from accord.search.result import SearchSettings, Translation


class ExportedModel:
    """A model in ONNX Runtime, with its vocabulary and graph."""

    def __init__(self, directory: Path, *, threads: int | None = None) -> None:
        manifest = Manifest.read(directory)
        self.manifest = manifest
        self.graph = manifest.graph
        names = ("vocabulary.model", "token_counts.npz", "encoder.onnx", "decoder.onnx")
        words, self._counts, *graphs = (manifest.file(directory, name) for name in names)
        vocabulary = Vocabulary.load(words, manifest.languages)
        sessions = Sessions(*graphs, threads=threads)
        self.decoder = Decoder(OnnxEngine(sessions), vocabulary, self._token_counts)

    def translate_together(
        self,
        sources: Sequence[Sequence[str]],
        to: str,
        weights: Sequence[float],
        settings: SearchSettings,
    ) -> list[Translation]:
        """Not to be had: a step only tells about the likeliest tokens."""
        raise AccordError(
            "an exported model cannot translate by an ensemble",
            fix="use the run that it was exported from",
        )

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str
    ) -> list[tuple[float, int]]:
        """Not to be had: a step only tells about the likeliest tokens."""
        raise AccordError(
            "an exported model translates, but cannot say how likely a given translation is",
            fix="use the run that it was exported from",
        )

    def _token_counts(self, language: str) -> npt.NDArray[np.int64]:
        with np.load(self._counts) as counts:
            found: npt.NDArray[np.int64] = counts[language]
        return found
