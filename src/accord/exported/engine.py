"""ONNX Runtime as the engine of a search: rows of ids in, hypotheses out."""

from collections.abc import Sequence

from accord.exported.beam import BeamSearch
from accord.exported.sessions import Sessions
from accord.search.decoding import Search
from accord.search.result import SearchSettings

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
