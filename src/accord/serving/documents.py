"""HTML and files translated through the same queue as all else.

A file is many sentences. It never has more of them waiting than one batch, so that others are
served in between; and only a few files are worked at in the same time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import PurePath
from typing import TypeVar

from accord.documents.formats import IN_TEXT, open_document
from accord.documents.html import HtmlText
from accord.documents.passage import Passage
from accord.documents.translation import Sentence, Translated, sentences_of, translating
from accord.errors import AccordError
from accord.inference.results import Translation
from accord.serving.batching import Job, Route
from accord.serving.messages import (
    SHUTTING_DOWN,
    Detected,
    FileRequest,
    Refusal,
    TranslateAnswer,
    TranslateRequest,
)
from accord.serving.metrics_text import Meter
from accord.serving.multipart import Upload
from accord.serving.service import Gone, Service
from accord.serving.settings import FILE_PATIENCE, MAX_MARKUP, MAX_TAGS, RETRY_SOON

_SAMPLE = 2000  # characters of a document by which its language is told
Facts = dict[str, object]
Made = TypeVar("Made")


class Documents:
    """Translates what is more than plain text."""

    def __init__(self, service: Service, meter: Meter, draining: Callable[[], bool]) -> None:
        self._service = service
        self._meter = meter
        self._draining = draining

    async def html(self, asked: TranslateRequest, gone: Gone) -> tuple[TranslateAnswer, Facts]:
        """The answer to a checked request for HTML, and what is to be noted of it."""
        planner = self._service.planner
        if asked.details:
            raise Refusal(400, "details are for text: leave them out, or format html")
        beam = planner.beam(asked)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        planner.check_length(texts)
        pages = await asyncio.to_thread(lambda: [HtmlText(text) for text in texts])
        languages = [planner.source(_sample(page.passages), asked) for page in pages]
        routes: dict[Route, list[int]] = {}
        for number, (source, _) in enumerate(languages):
            if source != asked.target:
                route = planner.route(source, asked, beam)
                routes.setdefault(route, []).append(number)
        wanted = {
            route: [passage for number in numbers for passage in pages[number].passages]
            for route, numbers in routes.items()
        }
        sentences = sum(map(sentences_of, wanted.values()))
        planner.check_sentences(sentences)
        made = list(texts)
        for route, passages in wanted.items():
            found = iter(await self._translated(passages, route, partial(self._at_once, gone)))
            for number in routes[route]:
                page = pages[number]
                made[number] = page.written([next(found) for _ in page.passages])
        one = isinstance(asked.q, str)
        answer = TranslateAnswer(translatedText=made[0] if one else made)
        if asked.alternatives:  # as LibreTranslate has it: there are none of HTML
            none: list[list[str]] = [[] for _ in made]
            answer.alternatives = none[0] if one else none
        if made and asked.source == "auto":
            detected = [Detected(language=code, confidence=sure or 0.0) for code, sure in languages]
            answer.detectedLanguage = detected[0] if one else detected
        source = ",".join(dict.fromkeys(code for code, _ in languages)) or asked.source
        characters = sum(map(len, texts))
        return answer, {"source": source, "characters": characters, "sentences": sentences}

    async def file(self, upload: Upload, asked: FileRequest, gone: Gone) -> tuple[bytes, Facts]:
        """A file translated, and what is to be noted of it."""
        settings = self._service.settings
        planner = self._service.planner
        until = time.monotonic() + settings.file_timeout
        most = settings.max_file_characters * MAX_MARKUP
        if PurePath(upload.name).suffix.lower() in IN_TEXT and len(upload.content) > most:
            raise Refusal(413, f"the file has more than {most:,} bytes of text: send it in parts")
        document = await _in_thread(open_document, upload.name, upload.content, MAX_TAGS)
        characters = sum(len(passage.text) for passage in document.passages)
        if characters > settings.max_file_characters:
            raise Refusal(
                413,
                f"the file has {characters} characters of text, and no more than "
                f"{settings.max_file_characters} are translated: send it in parts",
            )
        source, _ = planner.source(_sample(document.passages), asked)
        sentences = await asyncio.to_thread(sentences_of, document.passages)
        facts: Facts = {"source": source, "characters": characters, "sentences": sentences}
        if source == asked.target:
            return upload.content, facts
        route = planner.route(source, asked, settings.beam)
        answer = partial(self._in_turn, gone, until)
        found = await self._translated(document.passages, route, answer)
        return await _in_thread(document.written, found, asked.target), facts

    async def _translated(
        self, passages: Sequence[Passage], route: Route, answers: "Answers"
    ) -> list[Passage | None]:
        """What `translating` makes of passages; it works in a thread, as does what feeds it."""
        asking = translating(passages, route.target)
        begun: list[bool] = []

        def step(
            wanted: Sequence[Sentence], found: Sequence[Translation]
        ) -> tuple[list[Sentence], list[Passage | None] | None]:
            try:
                if not begun:
                    begun.append(True)
                    return next(asking), None
                tracer = self._service.tracer
                rows = [
                    Translated(item.text, tracer.characters(item) if sentence.aligned else ())
                    for sentence, item in zip(wanted, found, strict=True)
                ]
                return asking.send(rows), None
            except StopIteration as end:
                return [], end.value

        wanted, done = await asyncio.to_thread(step, [], [])
        count = 0
        while done is None:
            count += len(wanted)
            found = await answers([sentence.text for sentence in wanted], route)
            wanted, done = await asyncio.to_thread(step, wanted, found)
        self._meter.add("characters_total", sum(len(passage.text) for passage in passages))
        self._meter.add("sentences_total", count)
        return done

    async def _at_once(self, gone: Gone, texts: list[str], route: Route) -> list[Translation]:
        """All or nothing, as texts are."""
        jobs = [Job(texts, route)] if texts else []
        found = await self._service.results(jobs, gone, self._service.settings.timeout)
        return found[0] if found else []

    async def _in_turn(
        self, gone: Gone, until: float, texts: list[str], route: Route
    ) -> list[Translation]:
        """One batch after the other, each at the end of the queue."""
        size = min(self._service.settings.batch_size, self._service.settings.queue)
        made: list[Translation] = []
        for start in range(0, len(texts), size):
            job = Job(texts[start : start + size], route)
            made += await self._when_there_is_room(job, gone, until)
        return made

    async def _when_there_is_room(self, job: Job, gone: Gone, until: float) -> list[Translation]:
        while True:
            if self._draining():
                raise Refusal(503, SHUTTING_DOWN, retry_after=RETRY_SOON)
            left = until - time.monotonic()
            try:
                [found] = await self._service.results([job], gone, max(left, 0.0))
            except Refusal as refusal:
                if refusal.status == 504:
                    limit = f"{self._service.settings.file_timeout:g} seconds"
                    raise Refusal(
                        504, f"the file took more than {limit}: send it in parts"
                    ) from None
                if refusal.status != 429 or left <= 0:
                    raise
                await asyncio.sleep(FILE_PATIENCE)
                job = Job(job.texts, job.route)
            else:
                return found


Answers = Callable[[list[str], Route], Awaitable[list[Translation]]]


def _sample(passages: Sequence[Passage]) -> str:
    """Enough of a document to tell its language by."""
    text = ""
    for passage in passages:
        text += f"{passage.text[:_SAMPLE]}\n"
        if len(text) >= _SAMPLE:
            break
    return text[:_SAMPLE]


async def _in_thread(work: Callable[..., Made], *arguments: object) -> Made:
    """What a thread makes of a file; what is wrong with the file is told to the client."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except AccordError as error:
        where = f"{error.where[-100:]}: " if error.where else ""
        fix = f": {error.fix}" if error.fix else ""
        raise Refusal(400, f"{where}{error.what}{fix}") from None
