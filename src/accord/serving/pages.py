"""The page: its files are read once, and each is served at one fixed address."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

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
