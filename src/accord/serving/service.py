"""Requests answered: planned, translated together with others, put into LibreTranslate's form."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace

from accord.data.language_id import LanguageGuesser
from accord.documents.sentences import join
from accord.inference.alignments import Tracer
from accord.inference.results import SearchSettings, Translation
from accord.inference.training_text import TrainingText
from accord.serving.admission import GONE
from accord.serving.batching import Batcher, Job, Route
from accord.serving.messages import (
    Detected,
    Familiarity,
    Refusal,
    Sentence,
    TranslateAnswer,
    TranslateRequest,
)
from accord.serving.metrics_text import Meter
from accord.serving.opened_model import AnyTranslator
from accord.serving.planner import Plan, PlannedText, Planner
from accord.serving.settings import ServeSettings

Gone = Callable[[], Awaitable[None]]
"""Ends when the client has closed the connection."""


class Service:
    """One model, its queue and its thread; `training_text` is what the model remembers of it."""

    def __init__(
        self,
        translator: AnyTranslator,
        settings: ServeSettings,
        meter: Meter,
        training_text: TrainingText | None = None,
    ) -> None:
        graph = translator.graph
        guesser = LanguageGuesser(graph.languages, known_only=True, percentages=True)
        self.settings = settings
        self.planner = Planner(
            graph, settings, guesser, translator.needs_source, translator.directions
        )
        self.batcher = Batcher(self._translate, settings, meter)
        self._translator = translator
        self.tracer = Tracer(translator.vocabulary)
        self._training_text = training_text
        self._meter = meter

    def _translate(self, texts: Sequence[str], route: Route, nbest: int) -> list[Translation]:
        settings = SearchSettings(beam=route.beam, nbest=nbest)
        return self._translator.translate(
            texts, route.target, source=route.source, via=route.via or None, settings=settings
        )

    async def translate(self, asked: TranslateRequest, plan: Plan, gone: Gone) -> TranslateAnswer:
        """The answer; refused when it takes too long, given up when the client is gone."""
        found = await self.results(list(plan.jobs.values()), gone, self.settings.timeout)
        # What belongs to a text comes in its order from the job of its route.
        onward = {route: iter(rows) for route, rows in zip(plan.jobs, found, strict=True)}
        of_texts = [
            list(itertools.islice(onward.get(text.route, iter(())), len(text.pieces)))
            for text in plan.texts
        ]
        self._meter.add("characters_total", plan.characters)
        self._meter.add("sentences_total", plan.sentences)
        return self._answer(asked, plan.texts, of_texts)

    async def results(
        self, jobs: Sequence[Job], gone: Gone, seconds: float
    ) -> list[list[Translation]]:
        """What came of jobs; refused when it takes too long, given up when the client is gone."""
        if not jobs:
            return []
        self.batcher.submit(jobs)
        leaving = asyncio.ensure_future(gone())
        all_found = asyncio.gather(*(asyncio.wrap_future(job.future) for job in jobs))
        all_found.add_done_callback(_heard)
        try:
            await asyncio.wait(
                (leaving, all_found),
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if all_found.done():
                return all_found.result()
            if leaving.done():
                raise Refusal(GONE, "the client has gone")
            raise Refusal(
                504,
                f"the translation took more than {seconds:g} seconds: "
                "try again later, or send less",
            )
        finally:
            leaving.cancel()
            if not all_found.done() or all_found.exception():
                all_found.cancel()
                self.batcher.drop(jobs)

    def _answer(
        self,
        asked: TranslateRequest,
        texts: Sequence[PlannedText],
        found: Sequence[list[Translation]],
    ) -> TranslateAnswer:
        rows = list(zip(texts, found, strict=True))
        best = [_joined(text, rows, 0) for text, rows in rows]
        one = isinstance(asked.q, str)
        answer = TranslateAnswer(translatedText=best[0] if one else best)
        if asked.alternatives:
            others = [self._alternatives(*row, asked.alternatives) for row in rows]
            answer.alternatives = others[0] if one else others
        if texts and asked.source == "auto":
            languages = [
                Detected(language=text.source, confidence=text.confidence or 0.0) for text in texts
            ]
            answer.detectedLanguage = languages[0] if one else languages
        if asked.details:
            answer.details = [list(self._sentences(*row)) for row in rows]
        return answer

    def _sentences(self, text: PlannedText, found: Sequence[Translation]) -> Iterator[Sentence]:
        for piece, item in zip(text.pieces, found, strict=True):
            tokens, alignment = self.tracer.trace(item)
            sentence = Sentence(
                source=piece.text,
                target=item.text,
                kind=self.planner.kind(text.source, text.route.target, item.via),
                via=list(item.via),
                score=item.hypotheses[0].score,
                source_tokens=tokens,
                target_tokens=list(item.hypotheses[0].tokens),
                alignment=alignment,
                pivot=None if item.pivot is None else item.pivot.text,
                start=piece.start,
                end=piece.end,
            )
            if self._training_text is not None:
                seen = self._training_text.familiarity(*self.tracer.read(piece.text), text.source)
                sentence.familiarity = Familiarity(unlike=seen.unlike, **vars(seen))
            yield sentence

    def _alternatives(
        self, text: PlannedText, found: Sequence[Translation], count: int
    ) -> list[str]:
        kept = [self._in_one_language(item, text.route.target) for item in found]
        ranked = dict.fromkeys(_joined(text, kept, rank) for rank in range(count + 1))
        return list(ranked)[1:]

    def _in_one_language(self, found: Translation, target: str) -> Translation:
        """Without hypotheses, the best aside, that have words of other languages of their own.

        Searches explore them ("3 weeks and 5 jours"), and nobody wants them as a suggestion.
        """
        if self._training_text is None:
            return found
        best, *others = found.hypotheses
        foreign = self._training_text.has_foreign_words
        kept = [item for item in others if not foreign(item.ids, target, best.ids)]
        return replace(found, hypotheses=(best, *kept))


def _heard(found: "asyncio.Future[list[list[Translation]]]") -> None:
    """What became of it when nobody waited any more; asyncio complains of errors not looked at."""
    if not found.cancelled():
        found.exception()


def _joined(text: PlannedText, found: Sequence[Translation], rank: int) -> str:
    """The text made of the translations of that rank, or the last there is."""
    chosen = [item.hypotheses[min(rank, len(item.hypotheses) - 1)].text for item in found]
    return join(text.text, text.pieces, chosen, text.route.target)
