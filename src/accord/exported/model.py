"""An exported directory, loaded: what computes behind a `Translator` without PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

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
        words, counts, *graphs = (manifest.file(directory, name) for name in names)
        with np.load(counts) as arrays:  # now, since another export may take this one's place
            self._counts: dict[str, npt.NDArray[np.int64]] = dict(arrays)
        vocabulary = Vocabulary.load(words, manifest.languages)
        sessions = Sessions(*graphs, threads=threads)
        self.decoder = Decoder(OnnxEngine(sessions), vocabulary, self._counts.__getitem__)

    def check_ensembles(self) -> NoReturn:
        """Not to be had: a step only tells about the likeliest tokens."""
        raise AccordError(
            "an exported model cannot translate by an ensemble",
            fix="use the run that it was exported from",
        )

    def translate_together(
        self,
        sources: Sequence[Sequence[str]],
        to: str,
        weights: Sequence[float],
        settings: SearchSettings,
    ) -> list[Translation]:
        """Not to be had either."""
        self.check_ensembles()

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str
    ) -> list[tuple[float, int]]:
        """Not to be had: a step only tells about the likeliest tokens."""
        raise AccordError(
            "an exported model translates, but cannot say how likely a given translation is",
            fix="use the run that it was exported from",
        )
