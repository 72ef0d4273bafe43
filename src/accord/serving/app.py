"""The HTTP interface: LibreTranslate's addresses, and a few of our own."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, JSONResponse

import accord
from accord.documents.formats import FORMATS
from accord.graph import language_name
from accord.serving.access_log import Log
from accord.serving.admission import Gate, Keys, client_gone, read_body
from accord.serving.documents import Documents
from accord.serving.file_routes import Files, add_files
from accord.serving.messages import (
    Asked,
    Corpus,
    Default,
    Detected,
    DetectRequest,
    FrontendSettings,
    Graph,
    Health,
    Language,
    Name,
    Problem,
    Refusal,
    TranslateAnswer,
    TranslateRequest,
    Way,
    body_schema,
    parsed,
)
from accord.serving.metrics_text import Meter
from accord.serving.middleware import Guarded, Observed, note, refused
from accord.serving.opened_model import Opened
from accord.serving.reference_page import reference_page
from accord.serving.service import Service
from accord.serving.settings import RETRY_SOON, ServeSettings

# --- The page: its files are read once, and each is served at one fixed address.


_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
}


@dataclass(frozen=True)
class PageFile:
    """A file of the page."""

    address: str
    kind: str
    content: bytes
    tag: str

    def answer(self, request: Request) -> Response:
        """The file, or word that the browser's copy is still good; it is to ask each time."""
        headers = {"Cache-Control": "no-cache", "ETag": self.tag}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.kind, headers=headers)


def page_files() -> list[PageFile]:
    """All files of the page that comes with the package; index.html is at /."""
    found = []
    for file in sorted(files("accord.serving").joinpath("page").iterdir(), key=lambda x: x.name):
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None and file.is_file():
            content = file.read_bytes()
            address = "/" if file.name == "index.html" else f"/{file.name}"
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found.append(PageFile(address, kind, content, tag))
    return found


_REASONS = {
    400: "Something in the request is wrong.",
    403: "The API key is missing or wrong.",
    408: "The request came too slowly.",
    413: "The text or the file is too long.",
    429: "The queue is full; Retry-After says when to try again.",
    500: "Something went wrong in the server.",
    503: "The server is shutting down.",
    504: "The translation took too long.",
}
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text} for status, text in _REASONS.items()
}
_BUSY: dict[int | str, dict[str, Any]] = {status: _PROBLEMS[status] for status in (429, 500, 503)}


def create_app(
    opened: Opened,
    settings: ServeSettings,
    *,
    meter: Meter | None = None,
    log: Log | None = None,
    gate: Gate | None = None,
) -> FastAPI:
    """The application for a translator; it translates between its start-up and its shutdown."""
    meter = meter or Meter()
    gate = gate or Gate(meter)
    service = Service(opened.translator, settings, meter, opened.background.text)
    gate.queue_full = lambda: service.batcher.full
    documents = Documents(service, meter, lambda: gate.draining)
    files = Files(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with files.kept():
            service.batcher.start()
            yield
            await asyncio.to_thread(service.batcher.close)

    app = FastAPI(
        title="Accord",
        description=accord.__doc__.partition("\n")[0] if accord.__doc__ else "",
        version=accord.__version__,
        lifespan=lifespan,
        # Their pages load scripts from elsewhere; /docs is one of our own.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    keys = Keys(settings.api_keys)
    _add_translation(app, service, settings, documents, keys)
    add_files(app, files, service, documents, partial(_check_key, keys=keys), _PROBLEMS)
    _add_knowledge(app, service, settings, opened)
    _add_state(app, service, gate, meter)
    _add_page(app)
    _add_reference(app)
    _add_refusals(app)
    app.add_middleware(Guarded, gate=gate)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type", "Authorization"],
            expose_headers=["Retry-After", "X-Request-Id"],
        )
    app.add_middleware(Observed, meter=meter, log=log or Log(meter))  # outermost
    return app


def _add_translation(
    app: FastAPI, service: Service, settings: ServeSettings, documents: Documents, keys: Keys
) -> None:
    languages = service.planner.graph.languages

    async def read(request: Request, model: type[Asked]) -> Asked:
        service.batcher.check_room()  # a full server reads nothing more
        body = await read_body(request, settings)
        query = request.scope["query_string"]
        asked = parsed(request.headers.get("content-type", ""), body, model, query)
        _check_key(request, getattr(asked, "api_key", None), keys)
        return asked

    @app.post(
        "/translate",
        responses=_PROBLEMS,
        response_model=TranslateAnswer,
        openapi_extra=body_schema(TranslateRequest, languages),
        summary="Translate texts",
    )
    async def translate(request: Request) -> Response:
        asked = await read(request, TranslateRequest)
        note(request, source=asked.source, target=asked.target, via=asked.via)
        asked = service.planner.checked(asked)
        note(request, source=asked.source, target=asked.target, via=asked.via)
        gone = partial(client_gone, request)
        if asked.format == "html":
            answer, facts = await documents.html(asked, gone)
            note(request, **facts)
        else:
            plan = service.planner.plan(asked)
            note(request, characters=plan.characters, sentences=plan.sentences)
            if asked.source == "auto":
                note(request, source=",".join(dict.fromkeys(text.source for text in plan.texts)))
            answer = await service.translate(asked, plan, gone)
        if settings.log_texts:
            note(request, q=asked.q, translated=answer.translatedText)
        # As it is: FastAPI would check all of it once more.
        found = answer.model_dump_json(exclude_unset=True)
        return Response(found, media_type="application/json")

    @app.post(
        "/detect",
        responses=_PROBLEMS,
        openapi_extra=body_schema(DetectRequest, languages),
        summary="Detect the language of a text",
    )
    async def detect(request: Request) -> list[Detected]:
        asked = await read(request, DetectRequest)
        service.planner.check_length([asked.q])
        note(request, characters=len(asked.q))
        return [
            Detected(language=language, confidence=confidence)
            for language, confidence in service.planner.detect(asked.q)
        ]

    @app.post("/suggest", include_in_schema=False)
    async def suggest() -> Response:
        raise Refusal(501, "this server takes no suggestions: it learns only by training")


def _check_key(request: Request, given: str | None, keys: Keys) -> None:
    scheme, _, header = request.headers.get("authorization", "").partition(" ")
    # Headers are read as Latin-1, but a key of other letters is sent in UTF-8.
    sent = header.strip().encode("latin-1").decode("utf-8", "replace")
    key = sent if scheme.lower() == "bearer" else given
    if not keys.allow(key):
        what = "wrong" if key else "missing"
        raise Refusal(
            403,
            f"the API key is {what}: send it as api_key or in the header "
            "'Authorization: Bearer KEY'",
        )


def _add_knowledge(app: FastAPI, service: Service, settings: ServeSettings, opened: Opened) -> None:
    planner = service.planner
    graph = planner.graph
    names = [Name(code=code, name=language_name(code)) for code in graph.languages]
    languages = [
        Language(code=one.code, name=one.name, targets=planner.targets(one.code)) for one in names
    ]
    ways = [
        Way(
            source=source,
            target=target,
            kind=graph.kind((source, target)),
            via=list(planner.pivots(source, target) or ()),
            direct=planner.is_direct(source, target),
        )
        for source, target in graph.directions
    ]
    card = opened.background.card
    known = Graph(
        languages=names,
        directions=ways,
        model=dict(opened.about),
        corpora=[Corpus(**vars(corpus)) for corpus in card.corpora],
        examples={} if settings.hide_examples else {k: list(v) for k, v in card.examples.items()},
    )
    page = FrontendSettings(
        apiKeys=bool(settings.api_keys),
        keyRequired=bool(settings.api_keys),
        charLimit=settings.max_characters,
        frontendTimeout=500,
        suggestions=False,
        filesTranslation=settings.max_file > 0,
        supportedFilesFormat=list(FORMATS) if settings.max_file else [],
        language=Default(source=Name(code="auto", name="Auto Detect"), target=names[0]),
    )

    @app.get("/languages", responses=_BUSY, summary="Languages and what each translates into")
    async def _languages() -> list[Language]:
        return languages

    @app.get("/graph", responses=_BUSY, summary="Directions, with training data and without")
    async def _graph() -> Graph:
        return known

    @app.get("/frontend/settings", responses=_BUSY, summary="What a page needs to know")
    async def _settings() -> FrontendSettings:
        return page


def _add_state(app: FastAPI, service: Service, gate: Gate, meter: Meter) -> None:
    @app.get("/health", summary="Whether the server lives")
    async def health() -> Health:
        return Health(status="ok")

    @app.get(
        "/health/ready",
        responses={503: _PROBLEMS[503]},
        summary="Whether the server takes requests",
    )
    async def ready() -> Health:
        if gate.draining:
            raise Refusal(503, "the server is shutting down", retry_after=RETRY_SOON)
        if not service.batcher.alive:
            raise Refusal(503, "the server does not translate", retry_after=RETRY_SOON)
        return Health(status="ok")

    @app.get("/metrics", summary="Figures for Prometheus", response_class=Response)
    async def metrics() -> Response:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(meter.exposition(), media_type=kind)


def _add_page(app: FastAPI) -> None:
    for file in page_files():
        app.add_api_route(file.address, _answering(file.answer), include_in_schema=False)


def _add_reference(app: FastAPI) -> None:
    @app.get("/spec", include_in_schema=False)
    async def spec() -> Response:
        """As LibreTranslate calls it."""
        return JSONResponse(app.openapi())

    page = cache(lambda: reference_page(app.openapi()))  # made when it is first asked for

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page())


def _answering(
    answer: Callable[[Request], Response],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return answer(request)

    return endpoint


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(Refusal)
    async def refuse(_: Request, refusal: Refusal) -> Response:
        return refused(refusal)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        words = {
            404: f"there is nothing at {request.url.path[:100]}: see /openapi.json",
            405: f"{request.method[:20]} does not work here: see /openapi.json",
        }
        answer = refused(Refusal(error.status_code, words.get(error.status_code, error.detail)))
        answer.headers.update(error.headers or {})
        return answer
