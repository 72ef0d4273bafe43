"""The ONNX backend: an exported model in ONNX Runtime, searched with NumPy, without PyTorch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.inference.backends.base import Backend, LoadSettings
from accord.inference.backends.manifest import AGAIN, NAME, Manifest
from accord.inference.backends.onnx_beam_search import BeamSearch
from accord.inference.backends.onnx_sessions import Sessions
from accord.inference.results import SearchSettings, Translation
from accord.inference.text import Decoder, Search

# --- ONNX Runtime as the engine of a search: rows of ids in, hypotheses out.


# At once. More are no faster, and log-probabilities of 32,000 subwords take much memory.
_HYPOTHESES = 128


class OnnxEngine:
    """The two graphs of an exported model."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions

    def search(self, settings: SearchSettings, forbidden: Sequence[int]) -> Search:
        """A beam search that never generates the forbidden ids."""
        return BeamSearch(self.sessions, settings, forbidden)

    def fitting(self, longest: int, settings: SearchSettings) -> int:
        """How many rows to search at once."""
        rows = settings.batch_tokens // longest
        return max(1, min(rows, _HYPOTHESES // settings.beam))


class OnnxBackend(Backend):
    """A model in ONNX Runtime, with its vocabulary and graph.

    No ensembles, and no likelihood of given translations: a step only tells about the likeliest
    tokens.
    """

    def __init__(self, directory: Path, manifest: Manifest, settings: LoadSettings) -> None:
        settings.check_exported(directory)
        self.graph = manifest.graph
        names = ("vocabulary.model", "token_counts.npz", "encoder.onnx", "decoder.onnx")
        words, counts, *graphs = (manifest.file(directory, name) for name in names)
        # Counts are read now, since another export may take this one's place.
        with _loading(counts), np.load(counts) as arrays:
            self._counts: dict[str, npt.NDArray[np.int64]] = dict(arrays)
        if set(self._counts) != set(manifest.languages):
            raise AccordError(
                f"{', '.join(manifest.languages)} are not the languages of {counts.name}: "
                f"{', '.join(self._counts)}",
                where=f"{directory / NAME}, key languages",
                fix=AGAIN,
            )
        self.vocabulary = Vocabulary.load(words, manifest.languages, fix=AGAIN)
        with _loading(directory):
            sessions = Sessions(*graphs, threads=settings.threads)
        self.decoder = Decoder(OnnxEngine(sessions), self.vocabulary, self._counts.__getitem__)

    def translate(
        self, texts: Sequence[str], to: str, settings: SearchSettings
    ) -> list[Translation]:
        """Direct translations, by the beam search over the two graphs."""
        return self.decoder.translate(texts, to, settings)


@contextmanager
def _loading(path: Path) -> Iterator[None]:
    """A right checksum proves that a file is as it was written, not that it can be used."""
    try:
        yield
    except AccordError:
        raise
    except Exception as error:  # every library has kinds of its own
        raise AccordError(f"cannot be loaded: {error}", where=str(path), fix=AGAIN) from error
