"""Input files as streams: compressed, split in volumes or inside an archive, never unpacked.

Memory stays constant whatever the size of a file, of a line or of what a few bytes unfold to.
"""

import bz2
import codecs
import difflib
import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

import zstandard

from accord.config.paths import Place, compression, input_files, locate
from accord.errors import AccordError

__all__ = ["MAX_LINE_BYTES", "input_files", "open_bytes", "read_lines", "read_text"]

MAX_LINE_BYTES = 1_000_000

_CHUNK = 1 << 16
# Four bytes of zstd may unfold to 128 KiB and its decoder knows no limit, so it is fed little.
_FEED = 128
# An archive may hold millions of names; so many are kept for the message about a missing one.
_NAMES_KEPT = 10_000
_DAMAGE = (
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    tarfile.TarError,
    zipfile.BadZipFile,
)

Chunks = Generator[bytes, None, None]
_Decoder: TypeAlias = "lzma.LZMADecompressor | bz2.BZ2Decompressor | zstandard.ZstdDecompressionObj"


@dataclass
class Meter:
    """How much of the files that were opened has been read, in bytes as they lie there."""

    read: int = 0
    total: int = 0


_meter: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered() -> Iterator[Meter]:
    """Measure what is read meanwhile, to tell from a part of a file how much it holds."""
    meter = Meter()
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)


def _metered(chunks: Chunks, size: int) -> Chunks:
    meter = _meter.get()
    if meter is not None:
        meter.total += size
    for chunk in chunks:
        if meter is not None:
            meter.read += len(chunk)
        yield chunk


@contextmanager
def open_bytes(path: str) -> Iterator[io.BufferedReader]:
    """The decompressed bytes of a file or of an archive's member, as a forward-only stream."""
    place, files = locate(path), input_files(path)
    with ExitStack() as stack:

        def layer(chunks: Chunks) -> io.BufferedReader:
            return stack.enter_context(io.BufferedReader(_ChunkStream(path, chunks), _CHUNK))

        if place.is_zip:
            stream = layer(_zip_member(place))
        else:
            packed = _joined(files)
            if place.member is None:
                packed = _metered(packed, sum(file.stat().st_size for file in files))
            stream = layer(_decompressed(layer(packed), place.name))
            if place.member is not None:
                stream = layer(_tar_member(stream, place))
        if place.member is not None:
            stream = layer(_decompressed(stream, place.member))
        stream.peek(1)  # A missing member or a wrong format should fail here, not later.
        yield stream


def read_lines(path: str, *, strip: bool = True) -> Iterator[str | None]:
    """The lines of a UTF-8 file, split at LF only; None for a line above MAX_LINE_BYTES.

    With `strip` white space at both ends goes; without, only the LF does.
    """
    with open_bytes(path) as stream:
        number = 0
        while raw := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                _skip_line(stream)
                yield None
                continue
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                raise _not_utf8(path, number, error.start, raw[error.start]) from None
            if number == 1:
                text = text.removeprefix("\ufeff")
            yield text.strip() if strip else text.removesuffix("\n")


def read_text(path: str) -> Iterator[str]:
    """The text of a UTF-8 file in small pieces, for formats whose lines have no meaning."""
    number, column, pending = 1, 0, b""
    with open_bytes(path) as stream:
        while True:
            piece = stream.readline(_CHUNK)
            raw = pending + piece
            try:
                text, used = codecs.utf_8_decode(raw, "strict", not piece)
            except UnicodeDecodeError as error:
                raise _not_utf8(path, number, column + error.start, raw[error.start]) from None
            yield text.removeprefix("\ufeff") if (number, column) == (1, 0) else text
            if not piece:
                return
            pending, column = raw[used:], column + used
            if piece.endswith(b"\n"):
                number, column = number + 1, 0


def _skip_line(stream: io.BufferedReader) -> None:
    while (piece := stream.readline(_CHUNK)) and not piece.endswith(b"\n"):
        pass


def _not_utf8(path: str, line: int, offset: int, byte: int) -> AccordError:
    # A file of 16-bit characters starts with one of these bytes, which UTF-8 never contains.
    wide = line == 1 and offset == 0 and byte in (0xFE, 0xFF)
    encoding = "UTF-16" if wide else "ISO-8859-1"
    return AccordError(
        f"the byte 0x{byte:02X} is not valid UTF-8 here",
        where=f"{path}, line {line}, byte {offset + 1}",
        fix=f"re-encode the file, for example: iconv -f {encoding} -t UTF-8 OLD > NEW",
    )


class _ChunkStream(io.RawIOBase):
    """A stream over a generator of bytes, where failing decompression becomes an AccordError."""

    def __init__(self, path: str, chunks: Chunks) -> None:
        self._path = path
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            try:
                chunk = next(self._chunks, None)
            except _DAMAGE as error:
                raise _unreadable(self._path, error) from error
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        self._chunks.close()
        super().close()


def _unreadable(path: str, error: Exception) -> AccordError:
    # The operating system's errors carry a number, those of a decompressor do not.
    if isinstance(error, OSError) and error.errno is not None:
        return AccordError(f"the file cannot be read: {error}", where=path)
    return AccordError(
        f"the file is damaged or cut short: {error}",
        where=path,
        fix="fetch or copy it again and compare its size with the original",
    )


def _joined(files: list[Path]) -> Chunks:
    for file in files:
        with file.open("rb") as stream:
            yield from _chunks(stream)


def _chunks(stream: IO[bytes] | io.BufferedIOBase) -> Chunks:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _decompressed(stream: io.BufferedReader, name: str) -> Chunks:
    kind = compression(name)
    if kind is not None and not stream.peek(1):
        raise EOFError("it has no bytes at all")
    match kind:
        case None:
            yield from _chunks(stream)
        case ".gz":
            with gzip.GzipFile(fileobj=stream) as gz:
                yield from _chunks(gz)
        case ".xz":
            yield from _unpacked(stream, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), padding=4)
        case ".bz2":
            yield from _unpacked(stream, bz2.BZ2Decompressor)
        case _:
            decoder = zstandard.ZstdDecompressor(max_window_size=1 << 31)
            yield from _unpacked(stream, decoder.decompressobj)


def _unpacked(
    stream: io.BufferedReader, begin: Callable[[], _Decoder], *, padding: int = 0
) -> Chunks:
    """The contents of all streams of a file; between them only zeros, `padding` at a time.

    The packages' own readers take rubbish after a stream, or a stream that is cut short, for the
    end of the file, and what follows would be lost without a word.
    """
    decoder: _Decoder | None = None
    ready, zeros, first = bytearray(), 0, True
    while piece := stream.read(_FEED):
        while piece:
            if decoder is None:
                rest = piece if first or not padding else piece.lstrip(b"\0")
                zeros, piece, first = zeros + len(piece) - len(rest), rest, False
                if not piece:
                    break
                _check_padding(zeros, padding)
                decoder, zeros = begin(), 0
            for part in _outputs(decoder, piece):
                ready += part
                if len(ready) >= _CHUNK:
                    yield bytes(ready)
                    ready.clear()
            piece = decoder.unused_data
            decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise EOFError("the last stream has no end")
    _check_padding(zeros, padding)
    yield bytes(ready)


def _outputs(decoder: _Decoder, data: bytes) -> Chunks:
    if isinstance(decoder, lzma.LZMADecompressor | bz2.BZ2Decompressor):
        yield decoder.decompress(data, _CHUNK)
        while not decoder.eof and not decoder.needs_input:
            yield decoder.decompress(b"", _CHUNK)
    else:
        yield decoder.decompress(data)


def _check_padding(zeros: int, padding: int) -> None:
    if zeros and zeros % padding:
        raise EOFError(f"{zeros} bytes between two streams belong to neither")


def _tar_member(stream: io.BufferedReader, place: Place) -> Chunks:
    names: list[str] = []
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK) as archive:
        while (info := archive.next()) is not None:
            # Else the headers of all the members passed by would pile up.
            archive.members.clear()  # type: ignore[attr-defined]
            if not info.isfile():
                continue
            name = info.name.removeprefix("./")
            member = archive.extractfile(info) if name == place.member else None
            if member is not None:
                yield from _metered(_chunks(member), info.size)
                return
            if len(names) < _NAMES_KEPT:
                names.append(name)
    raise _no_member(place, names)


def _zip_member(place: Place) -> Chunks:
    with zipfile.ZipFile(place.file) as archive:
        names = {info.filename.removeprefix("./"): info for info in archive.infolist()}
        name = _only(place, names) if "*" in (place.member or "") else place.member
        if name not in names:
            raise _no_member(place, [name for name in names if not name.endswith("/")])
        try:
            info = names[name]
            with archive.open(info) as member:
                yield from _metered(_chunks(member), info.file_size)
        except RuntimeError as error:  # Encrypted, or packed in a way Python does not know.
            raise AccordError(
                f"the member cannot be unpacked: {error}", where=place.path, fix="unpack it by hand"
            ) from error


def _only(place: Place, names: Collection[str]) -> str | None:
    """The one member that a name with `*` stands for, as `*.en` does in a zip of OPUS."""
    pattern = re.compile(".*".join(map(re.escape, (place.member or "").split("*"))))
    found = [name for name in names if pattern.fullmatch(name)]
    if len(found) > 1:
        raise AccordError(
            f"{len(found)} members are named like {place.member}: {', '.join(found[:5])}",
            where=str(place.file.absolute()),
            fix=f"name the one you mean: {place.name}::{found[0]}",
        )
    return found[0] if found else place.member


def _no_member(place: Place, names: list[str]) -> AccordError:
    nearest = difflib.get_close_matches(place.member or "", names[:_NAMES_KEPT], 5, 0.0)
    return AccordError(
        f"the archive has no member {place.member}",
        where=str(place.file.absolute()),
        fix=f"the nearest names in it are {', '.join(nearest)}" if nearest else "it has no files",
    )
