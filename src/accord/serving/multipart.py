"""Forms with files in them (multipart/form-data), read from a body that is there as a whole."""

from dataclasses import dataclass, field

from accord.serving.settings import MAX_FIELDS


@dataclass(frozen=True)
class Upload:
    """A file as it was sent."""

    name: str
    content: bytes


@dataclass
class Form:
    """Fields in the order they came, and files by the names of their fields."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    files: dict[str, Upload] = field(default_factory=dict)


def multipart(content_type: str, body: bytes) -> Form:
    """The form in a body; ValueError where there is none in it."""
    from python_multipart.multipart import MultipartParser, parse_options_header

    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        raise ValueError("a form without a boundary")
    reading = _Reading()
    parser = MultipartParser(boundary, reading.callbacks())  # type: ignore[arg-type]
    parser.write(body)
    parser.finalize()
    if not reading.ended:
        raise ValueError("a form that does not end")
    return reading.form


class _Reading:
    """Told of every piece by the parser."""

    def __init__(self) -> None:
        self.form = Form()
        self.ended = False
        self._headers: dict[bytes, bytes] = {}
        self._name = self._value = b""
        self._content = bytearray()

    def callbacks(self) -> dict[str, object]:
        """What the parser is to call."""
        return {
            "on_part_begin": self._begin,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_end": self._all,
        }

    def _begin(self) -> None:
        self._headers = {}
        self._content = bytearray()

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _end(self) -> None:
        from python_multipart.multipart import parse_options_header

        disposition = self._headers.get(b"content-disposition", b"")
        _, options = parse_options_header(disposition)
        name = options.get(b"name", b"").decode("utf-8")
        if len(self.form.fields) + len(self.form.files) >= MAX_FIELDS:
            raise ValueError("too many fields")
        if b"filename" in options:
            sent = options[b"filename"].decode("utf-8", "replace")
            self.form.files[name] = Upload(sent, bytes(self._content))
        else:
            self.form.fields.append((name, self._content.decode("utf-8")))

    def _all(self) -> None:
        self.ended = True
