"""Addresses for files: /translate_file takes one, /download_file gives its translation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from pydantic import ValidationError

from accord.serving.admission import client_gone, read_body
from accord.serving.documents import Documents
from accord.serving.file_folder import FileFolder, temporary_folder
from accord.serving.messages import (
    MULTIPART,
    FileAnswer,
    FileRequest,
    Refusal,
    body_schema,
    form_fields,
    form_in,
    reason_of,
)
from accord.serving.middleware import note
from accord.serving.multipart import Upload
from accord.serving.service import Service
from accord.serving.settings import FILE_SWEEP, FORM_EXTRA, MAX_FILES, RETRY_SOON, ServeSettings

_ATTACHED = "application/octet-stream"  # whatever is in it, no browser shows it as a page of ours
_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "description": "As `translatedFileUrl` has it."},
}


class Files:
    """The folder, while the application runs, and how many files are being worked at."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._open = 0
        self.folder: FileFolder | None = None

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Have a folder, and sweep it now and then."""
        with contextlib.ExitStack() as stack:
            given = self._settings.file_folder
            self.folder = FileFolder(
                Path(given) if given else stack.enter_context(temporary_folder())
            )
            sweeping = asyncio.ensure_future(self._sweep(self.folder))
            try:
                yield
            finally:
                sweeping.cancel()

    async def _sweep(self, folder: FileFolder) -> None:
        while True:
            await asyncio.sleep(FILE_SWEEP)
            await asyncio.to_thread(folder.sweep)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """A place for one more file, before anything is read of it."""
        if self._open >= MAX_FILES:
            raise Refusal(
                429,
                "the server works at as many files as it can: try again later",
                retry_after=RETRY_SOON,
                close=True,
            )
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


def add_files(
    app: FastAPI,
    files: Files,
    service: Service,
    documents: Documents,
    check_key: Callable[[Request, str | None], None],
    problems: dict[int | str, dict[str, Any]],
) -> None:
    """The two addresses, where the server takes files."""
    settings = service.settings
    fetching: dict[int | str, dict[str, Any]] = {
        **{status: problems[status] for status in (429, 500, 503)},
        404: {**problems[400], "description": "There is no such file (any more)."},
    }

    @app.post(
        "/translate_file",
        responses=problems,
        openapi_extra=body_schema(FileRequest, service.planner.graph.languages),
        summary="Translate a file",
    )
    async def translate_file(request: Request) -> FileAnswer:
        if not settings.max_file:
            raise Refusal(403, "this server translates no files", close=True)
        service.batcher.check_room()
        with files.place():
            body = await read_body(request, settings, settings.max_file + FORM_EXTRA)
            upload, asked = _form(request.headers.get("content-type", ""), body)
            check_key(request, asked.api_key)
            if len(upload.content) > settings.max_file:
                limit = f"{settings.max_file:,} bytes"
                raise Refusal(413, f"the file is larger than {limit}: send it in parts")
            asked = service.planner.checked(asked)
            note(request, source=asked.source, target=asked.target, via=asked.via)
            gone = partial(client_gone, request)
            made, facts = await documents.file(upload, asked, gone)
            note(request, **facts)
            if files.folder is None:
                raise Refusal(503, "the server does not translate", retry_after=RETRY_SOON)
            name = await asyncio.to_thread(files.folder.put, upload.name, asked.target, made)
        return FileAnswer(translatedFileUrl=f"{_base(request)}/download_file/{quote(name)}")

    @app.get(
        "/download_file/{name}",
        responses=fetching,
        response_class=Response,
        openapi_extra={"parameters": [_NAME]},
        summary="Fetch a translated file",
    )
    async def download_file(request: Request) -> Response:
        name = request.path_params["name"]
        found = await asyncio.to_thread(files.folder.get, name) if files.folder else None
        if found is None:
            raise Refusal(404, "there is no such file, or not any more: translate it again")
        shown, content = found
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(shown)}"}
        return Response(content, media_type=_ATTACHED, headers=headers)


def _form(content_type: str, body: bytes) -> tuple[Upload, FileRequest]:
    if content_type.partition(";")[0].strip().lower() != MULTIPART:
        raise Refusal(400, f"a file comes in a form: send {MULTIPART} with the fields file, target")
    form = form_in(content_type, body)
    try:
        asked = FileRequest.model_validate(form_fields(form.fields))
    except ValidationError as error:
        raise Refusal(400, reason_of(error)) from None
    upload = form.files.get("file")
    if upload is None or not upload.name:
        raise Refusal(400, "the field 'file' is missing: add a file with its name")
    return Upload(PurePath(upload.name).name or upload.name, upload.content), asked


def _base(request: Request) -> str:
    """The address by which the client knows the server; a proxy may say that it is https."""
    scheme = request.headers.get("x-forwarded-proto", "http")
    host = request.headers.get("host", "")
    return f"{'https' if scheme == 'https' else 'http'}://{host}"
