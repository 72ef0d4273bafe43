"""Office files and e-books: ZIP archives of which some members hold text.

All other members (pictures, styles, settings) are written again as they were, in the same order.
"""

import io
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Protocol

from accord.documents.passage import Passage
from accord.errors import AccordError
from accord.files import NPZ_ERRORS

_MOST_BYTES = 100_000_000  # of all members together, unpacked
_MOST_MEMBERS = 10_000
_DAMAGED = (*NPZ_ERRORS, struct.error, NotImplementedError)
_FIX = "open it in the program it comes from and save it again"


class Part(Protocol):
    """A member with text."""

    passages: list[Passage]

    def written(self, translated: Sequence[Passage | None], target: str) -> bytes:
        """The member with its passages replaced; None leaves one as it was."""


Reader = Callable[[bytes], Part]


class Archive:
    """A ZIP archive; `reader_for` says how a member is read, or None for one without text."""

    def __init__(self, data: bytes, reader_for: Callable[[str], Reader | None]) -> None:
        self._members = _members(data)
        self._parts: dict[int, Part] = {}
        for number, (info, content) in enumerate(self._members):
            if reader := reader_for(info.filename):
                self._parts[number] = reader(content)
        if not self._parts:
            raise AccordError("the file has no text where this format has it", fix=_FIX)
        self.passages = [passage for part in self._parts.values() for passage in part.passages]

    def written(self, translated: Sequence[Passage | None], target: str) -> bytes:
        """The archive with its passages replaced; None leaves one as it was."""
        at = 0
        contents = {}
        for number, part in self._parts.items():
            mine = translated[at : at + len(part.passages)]
            at += len(mine)
            if any(passage is not None for passage in mine):
                contents[number] = part.written(mine, target)
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for number, (info, content) in enumerate(self._members):
                same = zipfile.ZipInfo(info.filename, info.date_time)
                same.compress_type = info.compress_type
                same.external_attr = info.external_attr
                archive.writestr(same, contents.get(number, content))
        return made.getvalue()


def _members(data: bytes) -> list[tuple[zipfile.ZipInfo, bytes]]:
    found: list[tuple[zipfile.ZipInfo, bytes]] = []
    left = _MOST_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if len(infos) > _MOST_MEMBERS or len({info.filename for info in infos}) < len(infos):
                raise AccordError("the file has too many members, or some twice", fix=_FIX)
            for info in infos:
                with archive.open(info) as member:
                    content = member.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise AccordError(
                        f"the file has more than {_MOST_BYTES:,} bytes when unpacked",
                        fix="take large pictures out, or translate it in parts",
                    )
                found.append((info, content))
    except _DAMAGED as error:
        raise AccordError(
            f"this is no whole, readable ZIP archive, as such files are ({error})", fix=_FIX
        ) from None
    return found
