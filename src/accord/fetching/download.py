"""Downloading one file: resumed where it broke off, retried, and compared with what is known.

What has come lies in NAME.part until all of it is there. NAME.part.json says which version of the
file it belongs to, so that two versions are never glued together.
"""

import hashlib
import http.client
import json
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO

from accord import __version__
from accord.errors import AccordError
from accord.fetching.catalogue import Part
from accord.files import atomic_write, sync_directory, writing_errors
from accord.progress import Progress

_CHUNK = 1 << 16
_TIMEOUT = 60.0
# Pauses between attempts that brought nothing, in seconds.
_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
_LONGEST_PAUSE = 120.0
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_MB = 10**6
_LONGEST_WORDS = 200


class Refusal(Exception):  # noqa: N818 (not an error yet: another address may have the file)
    """One address does not give the file, and asking again would not help."""


class _ChangedError(Exception):
    """The part that is here belongs to another version of the file."""


def download(
    part: Part,
    target: Path,
    *,
    most: int,
    progress: Progress,
    wait: Callable[[float], None] = time.sleep,
) -> str:
    """Bring a file to `target` from the first address that has it; returns that address."""
    refusals = []
    for url in part.urls:
        try:
            _Transfer(url, part, target, most, progress).run(wait)
            return url
        except Refusal as refusal:
            refusals.append(f"{url}: {refusal}")
    raise Refusal("; ".join(refusals))


def digest_of(path: Path, algorithm: str) -> str:
    """The checksum of a file's bytes, in hex."""
    with path.open("rb") as file:
        # MD5 guards against damage here, not against malice: some files have nothing better.
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()


def unlike(part: Part, path: Path) -> str | None:
    """What the catalogue says otherwise about a file, if anything."""
    size = path.stat().st_size
    if part.size is not None and size != part.size:
        return f"it has {size:,} bytes, not {part.size:,}"
    if part.checksum is not None:
        algorithm, _, expected = part.checksum.partition(":")
        found = digest_of(path, algorithm)
        if found != expected:
            return f"its {algorithm} is {found}, not {expected}"
    return None


class EncryptedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a server elsewhere, but never from https to anything else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The request to the new address."""
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise Refusal(f"the server leads away from https, to {_shown(newurl)}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@dataclass
class _Transfer:
    """One file from one address."""

    url: str
    part: Part
    target: Path
    most: int
    progress: Progress

    def __post_init__(self) -> None:
        self.partial = self.target.with_name(f"{self.target.name}.part")
        self.version = self.target.with_name(f"{self.target.name}.part.json")
        self.opener = urllib.request.build_opener(EncryptedRedirects)

    def run(self, wait: Callable[[float], None]) -> None:
        """Try until it is here, with pauses while nothing comes."""
        failed = 0
        while True:
            before = self._done()
            try:
                self._attempt()
                break
            except (OSError, http.client.HTTPException, _ChangedError) as error:
                pause = _pause(error)
                failed = 1 if self._done() > before else failed + 1
                if failed > len(_PAUSES):
                    raise Refusal(f"{_reason(error)}, {failed} times in a row") from error
                pause = max(pause, _PAUSES[failed - 1])
                self.progress.note(f"{self.part.name}: {_reason(error)}; again in {pause:.0f} s")
                wait(pause)
        problem = unlike(self.part, self.partial)
        if problem:
            self._drop()
            raise Refusal(problem)
        with writing_errors(self.target):
            self.partial.replace(self.target)
            self.version.unlink(missing_ok=True)
            sync_directory(self.target.parent)

    def _done(self) -> int:
        return self.partial.stat().st_size if self.partial.exists() else 0

    def _drop(self) -> None:
        self.partial.unlink(missing_ok=True)
        self.version.unlink(missing_ok=True)

    def _attempt(self) -> None:
        done, validator = self._done(), self._validator()
        headers = {"User-Agent": f"accord/{__version__}", "Accept-Encoding": "identity"}
        if done and validator:
            headers |= {"Range": f"bytes={done}-", "If-Range": validator}
        request = urllib.request.Request(self.url, headers=headers)
        try:
            with self.opener.open(request, timeout=_TIMEOUT) as answer:
                self._receive(answer, done)
        except ValueError as error:  # of a number or an address that is none
            raise Refusal(f"the server says what makes no sense ({_shown(error)})") from error
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 416:
                    self._all_here(error.headers, done)
                elif error.code not in _PASSING:
                    raise Refusal(_reason(error)) from error
                else:
                    raise

    def _all_here(self, headers: Message, done: int) -> None:
        """The server has nothing beyond what is here: complete, or no longer the same file."""
        if headers.get("Content-Range") != f"bytes */{done}":
            self._drop()
            raise _ChangedError

    def _receive(self, answer: http.client.HTTPResponse, done: int) -> None:
        start, total = _extent(answer)
        if start not in (0, done) or (start and self._is_another(answer)):
            self._drop()
            raise _ChangedError
        if start == 0 and done:
            self.progress.note(
                f"{self.part.name}: the server does not go on where it stopped, or has another "
                "version now; starting over"
            )
        self._check_offer(answer, start, total)
        if start == 0:
            self._begin(answer)
        done = self._copy(answer, start, total)
        if done == 0 or (total is not None and done < total):
            raise ConnectionError("the connection broke off")
        if total is not None and done > total:
            self._drop()
            raise _ChangedError

    def _check_offer(self, answer: http.client.HTTPResponse, start: int, total: int | None) -> None:
        if answer.headers.get_content_type() in ("text/html", "application/xhtml+xml"):
            raise Refusal("a web page comes instead of the file")
        if total is None:
            return
        if self.part.size is not None and total != self.part.size:
            raise Refusal(f"the file has {total:,} bytes there, not {self.part.size:,}")
        if total > self.most:
            raise Refusal(f"the file has {total:,} bytes there, more than can be right")
        free = shutil.disk_usage(self.target.parent).free
        if total - start > free:
            raise AccordError(
                f"{(total - start) / 1e9:.1f} GB are still to come, but {free / 1e9:.1f} GB free",
                where=str(self.target.parent),
                fix="free some space or choose another directory",
            )

    def _begin(self, answer: http.client.HTTPResponse) -> None:
        """Forget what is here, and note which version of the file is coming."""
        self._drop()
        etag = answer.headers.get("ETag")
        # A weak tag only promises the same meaning, not the same bytes.
        strong = etag if etag and not etag.startswith("W/") else None
        with atomic_write(self.version) as file:
            json.dump({"url": self.url, "is": strong or answer.headers.get("Last-Modified")}, file)

    def _validator(self) -> str | None:
        """What tells the server which version the part here belongs to."""
        try:
            known = json.loads(self.version.read_text(encoding="utf-8"))
            return known["is"] if known["url"] == self.url else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _is_another(self, answer: http.client.HTTPResponse) -> bool:
        """Whether the server goes on with another version, though it was asked for this one."""
        tag, date = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
        known = self._validator() or ""
        return known not in (tag, date) and bool(tag if known.startswith('"') else date)

    def _copy(self, answer: http.client.HTTPResponse, done: int, total: int | None) -> int:
        what = f"fetching {self.part.name} (MB)"
        self.progress.start(what, None if total is None else -(-total // _MB))
        begun, before = time.monotonic(), done
        with writing_errors(self.partial):
            file = self.partial.open("ab")
        try:
            # Errors of the network and of the disk must not be taken for each other.
            while chunk := answer.read(_CHUNK):
                if done == 0:
                    _check_beginning(self.part.name, chunk)
                done += len(chunk)
                if done > self.most:
                    raise Refusal(f"more than {self.most:,} bytes come, which cannot be right")
                with writing_errors(self.partial):
                    file.write(chunk)
                rate = (done - before) / max(time.monotonic() - begun, 1e-3) / _MB
                self.progress.reach(done // _MB, f"{rate:.1f} MB/s")
        finally:
            with writing_errors(self.partial), file:
                file.flush()
                os.fsync(file.fileno())
        return done


def _extent(answer: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where what comes begins in the file, and how long the whole file is."""
    if answer.status == 206:
        found = re.fullmatch(
            r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", "").strip()
        )
        if found is None:
            raise Refusal("the server sends a part of the file without saying which")
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = answer.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _check_beginning(name: str, chunk: bytes) -> None:
    """All that we fetch is gzip or Parquet, later volumes of a split file apart."""
    later = re.search(r"\.\d*[1-9]\d*$", name)
    kind, magic = ("Parquet", b"PAR1") if name.endswith(".parquet") else ("gzip", b"\x1f\x8b")
    if later is None and not magic.startswith(chunk[: len(magic)]):  # which may break off in it
        page = chunk.lstrip()[:1] == b"<"
        what = "a web page comes instead of the file" if page else f"what comes is not {kind}"
        raise Refusal(what)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server says {error.code} {_shown(error.reason)}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection ({_shown(error.reason)})"
    if isinstance(error, _ChangedError):
        return "the file has changed on the server"
    return _shown(error) or type(error).__name__


def _shown(words: object) -> str:
    """What a server may have said: it must not command the terminal, nor fill it."""
    text = "".join(c if c.isprintable() else " " for c in str(words)).strip()
    return text if len(text) <= _LONGEST_WORDS else f"{text[:_LONGEST_WORDS]}…"


def _pause(error: Exception) -> float:
    """What the server asks for; an error that no pause can mend ends the attempts."""
    if isinstance(error, urllib.error.HTTPError):
        after = error.headers.get("Retry-After", "")
        return min(float(after), _LONGEST_PAUSE) if after.isdecimal() else 0.0
    if isinstance(error, urllib.error.URLError) and isinstance(
        error.reason, ssl.SSLCertVerificationError
    ):
        raise Refusal(f"its certificate is not trusted ({error.reason})") from error
    return 0.0
