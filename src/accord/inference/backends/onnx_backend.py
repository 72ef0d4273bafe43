"""The ONNX backend: an exported model in ONNX Runtime, searched with NumPy, without PyTorch."""

from collections.abc import Sequence
from pathlib import Path

from accord.inference.backends.base import Backend, LoadSettings
from accord.inference.backends.exported_files import loading, read_vocabulary
from accord.inference.backends.manifest import Manifest
from accord.inference.backends.onnx_beam_search import BeamSearch
from accord.inference.backends.onnx_sessions import Sessions
from accord.inference.results import SearchSettings, Translation
from accord.inference.text import Decoder, Search, fitting_on_cpu

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
        return fitting_on_cpu(longest, settings.batch_tokens, settings.beam, _HYPOTHESES)


class OnnxBackend(Backend):
    """A model in ONNX Runtime, with its vocabulary and graph.

    No ensembles, and no likelihood of given translations: a step only tells about the likeliest
    tokens.
    """

    has_likelihood = False

    def __init__(self, directory: Path, manifest: Manifest, settings: LoadSettings) -> None:
        settings.check_exported(directory)
        self.graph = manifest.graph
        self.vocabulary, counts = read_vocabulary(directory, manifest)
        graphs = [manifest.file(directory, name) for name in ("encoder.onnx", "decoder.onnx")]
        with loading(directory):
            sessions = Sessions(*graphs, threads=settings.threads)
        self.decoder = Decoder(OnnxEngine(sessions), self.vocabulary, counts.__getitem__)

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        settings: SearchSettings,
        source: str | None = None,
    ) -> list[Translation]:
        """Direct translations, by the beam search over the two graphs."""
        return self.decoder.translate(texts, to, settings, source)
