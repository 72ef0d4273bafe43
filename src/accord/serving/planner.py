"""Planning a request: its texts, their languages, their sentences, and the route of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from accord.data.language_id import LanguageGuesser
from accord.data.markup import same_language
from accord.documents.sentences import Piece, split
from accord.graph import Direction, TranslationGraph
from accord.serving.batching import Job, Route
from accord.serving.messages import FileRequest, Kind, Refusal, TranslateRequest
from accord.serving.settings import MAX_BEAM, ServeSettings

AUTO = "auto"
_ALIASES = {"pb": "pt-BR", "zt": "zh-Hant"}  # LibreTranslate's own
Wanted = TypeVar("Wanted", "TranslateRequest", "FileRequest")


@dataclass(frozen=True)
class PlannedText:
    """A text, its language (percent sure, where detected), its sentences and where they go.

    Text that is in the target language already has no sentences: it is given back as it is.
    """

    text: str
    source: str
    confidence: float | None
    route: Route
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class Plan:
    """A request, taken apart: a job for each route, as a rule only one."""

    texts: Sequence[PlannedText]
    jobs: dict[Route, Job] = field(default_factory=dict)

    @property
    def sentences(self) -> int:
        """All of them."""
        return sum(len(text.pieces) for text in self.texts)

    @property
    def characters(self) -> int:
        """All of them."""
        return sum(len(text.text) for text in self.texts)


class Planner:
    """Checks what is asked against what the model and the server can do."""

    def __init__(
        self,
        graph: TranslationGraph,
        settings: ServeSettings,
        guesser: LanguageGuesser,
        needs_source: bool = False,
        directions: frozenset[Direction] | None = None,
    ) -> None:
        self.graph = graph
        self.settings = settings
        self._guesser = guesser
        self._needs_source = needs_source
        self._directions = directions
        self._chains = graph.within(directions)

    def checked(self, asked: Wanted) -> Wanted:
        """The request with the codes that the model has; one that names others is refused."""
        codes = {
            "target": self._code("target", asked.target),
            "source": self._code("source", asked.source),
            "via": None if asked.via is None else self._code("via", asked.via),
        }
        via = codes["via"]
        if via in (codes["source"], codes["target"]) and via not in (AUTO, None):
            raise Refusal(400, f"via '{via}' is an end of the way: name a third language")
        return asked.model_copy(update=codes)

    def plan(self, asked: TranslateRequest) -> Plan:
        """What to translate how, of a request that was checked."""
        beam = self.beam(asked)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        self.check_length(texts)
        planned = [self._text(text, asked, beam) for text in texts]
        plan = Plan(planned, _jobs(planned, asked.alternatives + 1))
        self.check_sentences(plan.sentences)
        return plan

    def check_sentences(self, sentences: int) -> None:
        """Refuse more sentences than allowed."""
        if sentences > self.settings.max_sentences:
            raise Refusal(
                413,
                f"the text has {sentences} sentences, and no more than "
                f"{self.settings.max_sentences} are translated at once: send it in parts",
            )

    def check_length(self, texts: Sequence[str]) -> None:
        """Refuse more characters than allowed; an empty text counts as one, for it takes time."""
        characters = sum(max(1, len(text)) for text in texts)
        if characters > self.settings.max_characters:
            raise Refusal(
                413,
                f"the text has {characters} characters, and no more than "
                f"{self.settings.max_characters} are translated at once: send it in parts",
            )

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Languages and how sure they are."""
        if not self._guesser.languages:
            raise Refusal(400, "languages cannot be detected here: name the source language")
        return self._guesser.rank(text)

    def targets(self, source: str) -> list[str]:
        """The languages that text goes into directly: a client of LibreTranslate names no pivot."""
        return [x for x in self.graph.languages if x != source and self.is_direct(source, x)]

    def is_direct(self, source: str, target: str) -> bool:
        """Whether the model translates a direction without a pivot."""
        return self._directions is None or (source, target) in self._directions

    def pivots(self, source: str, target: str) -> tuple[str, ...] | None:
        """The languages between on the chain that `via: auto` takes; None where there is none."""
        path = self._chains.pivot_path(source, target)
        return None if path is None else path[1:-1]

    def kind(self, source: str, target: str, via: Sequence[str]) -> Kind:
        """How a translation came to be."""
        if via:
            return "pivot"
        return self.graph.kind((source, target))

    def _code(self, name: str, code: str) -> str:
        """A language by the code that the model has for it: de for DE and for de-DE as well."""
        known = self.graph.languages
        if code in known or (code.lower() == AUTO and name != "target"):
            return code if code in known else AUTO
        meant = _ALIASES.get(code.lower(), code)
        found = [language for language in known if same_language(meant, language)]
        exact = [
            language for language in found if language.lower() == meant.lower().replace("-", "_")
        ]
        if len(exact or found) != 1:
            raise Refusal(400, f"{name} '{code}' is not known here: use one of {', '.join(known)}")
        return (exact or found)[0]

    def beam(self, asked: TranslateRequest) -> int:
        """The beam to search with."""
        if asked.beam is None:
            return min(MAX_BEAM, max(self.settings.beam, asked.alternatives + 1))
        if asked.alternatives >= asked.beam:
            raise Refusal(
                400,
                f"a beam of {asked.beam} finds no {asked.alternatives} alternatives: "
                f"set beam to {asked.alternatives + 1} or more, or leave it out",
            )
        return asked.beam

    def _text(self, text: str, asked: TranslateRequest, beam: int) -> PlannedText:
        source, confidence = self.source(text, asked)
        pieces = [] if source == asked.target else split(text)
        route = self.route(source, asked, beam) if pieces else Route(asked.target, (), beam)
        return PlannedText(text, source, confidence, route, pieces)

    def route(self, source: str, asked: TranslateRequest | FileRequest, beam: int) -> Route:
        """Where text goes; with its language only where the model has to be told, so that else
        texts of all languages are translated together."""
        via = self._via(source, asked)
        self._check_legs(source, via, asked.target)
        return Route(asked.target, via, beam, source if self._needs_source else None)

    def source(self, text: str, asked: TranslateRequest | FileRequest) -> tuple[str, float | None]:
        """The language of a text, and how sure that is where it was detected."""
        return self.detect(text)[0] if asked.source == AUTO else (asked.source, None)

    def _check_legs(self, source: str, via: Sequence[str], target: str) -> None:
        """Refuse a way along which there is not a model for every leg."""
        legs = [Direction(*leg) for leg in pairwise((source, *via, target))]
        missing = next((leg for leg in legs if not self.is_direct(*leg)), None)
        if missing is not None:
            way = self.pivots(source, target) is not None
            fix = "set via to auto" if way else "translate into another language"
            raise Refusal(400, f"there is no direct model for {missing} here: {fix}")

    def _via(self, source: str, asked: TranslateRequest | FileRequest) -> tuple[str, ...]:
        """The languages to pass through."""
        if asked.via is None or asked.via == source:  # by detection: nobody chose to start there
            return ()
        if asked.via != AUTO:
            return (asked.via,)
        pivots = self.pivots(source, asked.target)
        if pivots is None:
            raise Refusal(
                400,
                f"no chain of training data leads from {source} to {asked.target}: "
                "leave via out, or name a pivot language",
            )
        return pivots


def _jobs(texts: Sequence[PlannedText], nbest: int) -> dict[Route, Job]:
    sentences: dict[Route, list[str]] = {}
    for text in texts:
        sentences.setdefault(text.route, []).extend(piece.text for piece in text.pieces)
    return {route: Job(found, route, nbest) for route, found in sentences.items() if found}
