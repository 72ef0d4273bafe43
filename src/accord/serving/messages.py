"""Messages: what clients may ask and what they are told, in LibreTranslate's forms."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from accord.serving.multipart import Form, multipart
from accord.serving.settings import MAX_BEAM, MAX_CODE, MAX_FIELDS, MAX_KEY

Kind = Literal["supervised", "zero-shot", "pivot"]


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Problem(_Answer):
    """Why there is no answer."""

    error: str
    """What is wrong and how to mend it."""


class Detected(_Answer):
    """A language, and how sure that is."""

    language: str
    confidence: float
    """Per cent; 0 where the text has no letters."""


class Familiarity(_Answer):
    """How like the training text of its language a sentence is."""

    unlike: bool | None
    """Whether it is unlike it, so that the translation may well be wrong; null: nobody knows."""
    byte_share: float
    """Share of its subwords that spell single bytes: characters that the training text lacks."""
    bits_per_character: float
    """What it takes in a unigram model of the training text."""
    surprise: float | None
    """How far that is beyond the usual, as a standard score; null where the usual is not known."""
    limit: float | None
    """Up to this score it is usual: 99 in 100 dev sentences are."""


class Sentence(_Answer):
    """One sentence and its translation."""

    source: str
    target: str
    kind: Kind
    """supervised: straight, with training data; zero-shot: straight, without; pivot: via others."""
    via: list[str]
    """Languages passed through."""
    score: float
    """Log-probability over a length penalty, or what else the model ranks by; through pivots the
    sum of the legs."""
    source_tokens: list[str]
    target_tokens: list[str]
    alignment: list[int]
    """For each target token the source token it attends to most; -1 for none."""
    pivot: str | None
    """The translation into the last language of `via`."""
    start: int
    """Where the sentence begins in its text, in Unicode characters."""
    end: int
    familiarity: Familiarity | None = None
    """Where the model remembers its training text."""


class TranslateAnswer(_Answer):
    """Lists where `q` was a list."""

    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] | None = None
    """Where any were asked for: others, the best first; fewer than asked where none are left."""
    detectedLanguage: Detected | list[Detected] | None = None
    """Where the source was auto."""
    details: list[list[Sentence]] | None = None
    """Where asked for: the sentences of each text, one text or several."""


class Language(_Answer):
    """A language and those it can be translated into directly, that is without `via`."""

    code: str
    name: str
    targets: list[str]


class Name(_Answer):
    """A language."""

    code: str
    name: str


class Way(_Answer):
    """One direction: what data there was for it, and how it is translated here."""

    source: str
    target: str
    kind: Literal["supervised", "zero-shot"]
    """Whether there was training data for it."""
    via: list[str]
    """The languages between on the shortest chain that `via: auto` takes, of directions with
    training data that are translated here; none where the direction is one, or no chain leads."""
    direct: bool
    """Whether it is translated without `via`; otherwise only along that chain, if there is one."""


class Corpus(_Answer):
    """Text that the model was trained on."""

    pair: str
    sentences: int
    """Pairs of sentences."""
    names: list[str]
    """Of its files."""


class Graph(_Answer):
    """All directions between the languages, whether the model translates them or not."""

    languages: list[Name]
    directions: list[Way]
    model: dict[str, str | int | None]
    corpora: list[Corpus] = []
    """None where that is not known: an export of a former version does not say."""
    examples: dict[str, list[str]] = {}
    """Sentences to try, by language."""


class Health(_Answer):
    """Whether the server is well."""

    status: str


class Default(_Answer):
    """Languages that the page begins with."""

    source: Name
    target: Name


class FrontendSettings(_Answer):
    """What a page needs to know."""

    apiKeys: bool
    keyRequired: bool
    charLimit: int
    frontendTimeout: int
    suggestions: bool
    filesTranslation: bool
    supportedFilesFormat: list[str]
    language: Default


# --- Answers that are not translations: a status and a sentence for the client.


class Refusal(Exception):  # noqa: N818  # most refusals are no errors of anybody
    """What the client is told instead of an answer.

    `retry_after` (seconds) says when to try again. `close` ends the connection, where the rest of
    the request has not been read and never will be.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: int | None = None, close: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.close = close

    def headers(self) -> dict[str, str]:
        """What goes beside the message."""
        found = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return found | ({"Connection": "close"} if self.close else {})


SHUTTING_DOWN = "the server is shutting down: try again soon"


# --- What clients may ask: LibreTranslate's fields, and three of our own.


Code = Annotated[str, StringConstraints(max_length=MAX_CODE)]
Key = Annotated[str, StringConstraints(max_length=MAX_KEY)]
Asked = TypeVar("Asked", bound=BaseModel)
_FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_BAD_FORM = f"the form cannot be read: send fields in UTF-8, {MAX_FIELDS} at most"


class DetectRequest(BaseModel):
    """A text whose language is wanted."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    q: str
    """The text."""
    api_key: Key | None = None
    """Where the server wants one; the header `Authorization: Bearer KEY` does as well."""


class TranslateRequest(BaseModel):
    """Texts to be translated."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    q: str | list[str]
    """One text or several."""
    source: Code = "auto"
    """Language code, or auto: it is detected, for every text on its own."""
    target: Code
    """Language code."""
    alternatives: int = Field(0, ge=0, lt=MAX_BEAM)
    """Further translations of each text, as far as there are any; fewer than `beam`."""
    format: Annotated[Literal["text", "html"], BeforeValidator(lambda value: value or "text")] = (
        "text"
    )
    """html: tags stay, and the text in them and in attributes that people read is translated."""
    api_key: Key | None = None
    """Where the server wants one; the header `Authorization: Bearer KEY` does as well."""
    via: Code | None = None
    """Pivot: a language code, or auto for the shortest chain of languages with training data."""
    beam: int | None = Field(None, ge=1, le=MAX_BEAM)
    """Beam size: 1 is fastest; by default the server's own."""
    details: bool = False
    """Sentences, subwords, alignments and scores as well."""


class FileRequest(BaseModel):
    """The fields beside a file to be translated."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    source: Code = "auto"
    """Language code, or auto: it is detected from the beginning of the file."""
    target: Code
    """Language code."""
    api_key: Key | None = None
    """Where the server wants one; the header `Authorization: Bearer KEY` does as well."""
    via: Code | None = None
    """Pivot: a language code, or auto for the shortest chain of languages with training data."""


class FileAnswer(_Answer):
    """Where a translated file is."""

    translatedFileUrl: str


def body_schema(model: type[BaseModel], languages: Sequence[str]) -> dict[str, Any]:
    """How the OpenAPI document describes a body, which may be JSON or a form."""
    schema = model.model_json_schema()
    codes = {"target": languages, "source": ["auto", *languages], "via": ["auto", *languages, None]}
    for name, allowed in codes.items():
        if name in schema["properties"]:
            schema["properties"][name]["enum"] = list(allowed)
    if model is FileRequest:
        schema["properties"]["file"] = {"type": "string", "format": "binary"}
        schema["required"] = ["file", *schema["required"]]
        kinds: tuple[str, ...] = (MULTIPART,)
    else:
        kinds = ("application/json", _FORM, MULTIPART)
    content = {kind: {"schema": schema} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


def parsed(content_type: str, body: bytes, model: type[Asked], query: bytes = b"") -> Asked:
    """The body as what was to be asked; anything else is refused with a reason.

    Without JSON, fields may stand in the address (`query`) as well, and there they come first.
    """
    kind = content_type.partition(";")[0].strip().lower()
    # curl -d calls everything a form, also JSON; no form begins with a brace.
    if kind == _FORM and body.lstrip()[:1] == b"{":
        kind = ""
    elif query and not body.strip():
        kind = _FORM
    try:
        if kind == MULTIPART:
            fields = form_fields(form_in(content_type, body).fields)
            return model.model_validate(fields | _fields(query))
        if kind == _FORM:
            return model.model_validate(_fields(body) | _fields(query))
        if kind in ("", "text/plain") or kind.endswith("json"):
            return model.model_validate_json(body)
    except ValidationError as error:
        raise Refusal(400, reason_of(error)) from None
    except ValueError:
        raise Refusal(400, _BAD_FORM) from None
    kinds = f"application/json, {_FORM} or {MULTIPART}"
    raise Refusal(400, f"the body has the type '{kind[:60]}': send {kinds}")


def form_in(content_type: str, body: bytes) -> Form:
    """A form with files; what is none is refused."""
    try:
        return multipart(content_type, body)
    except ModuleNotFoundError as error:
        reason = f"such forms need the package {error.name} on the server"
        raise Refusal(501, f"{reason}: pip install 'accord[serve]'") from None
    except ValueError:
        raise Refusal(400, _BAD_FORM) from None


def _fields(body: bytes) -> dict[str, str | list[str]]:
    pairs = parse_qsl(
        body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
    )
    return form_fields(pairs)


def form_fields(pairs: Sequence[tuple[str, str]]) -> dict[str, str | list[str]]:
    """The fields of a form. One that is repeated is a list, one left empty is not given."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if value or name == "q":
            found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def reason_of(error: ValidationError) -> str:
    """The first thing that is wrong, in a sentence."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    message = first["msg"]
    if first["type"] == "json_invalid":
        return f"the body is not JSON in UTF-8 ({message.removeprefix('Invalid JSON: ')})"
    if not first["loc"]:
        return 'the body must be a JSON object such as {"q": "Hallo", "target": "en"}'
    name = first["loc"][0]
    if first["type"] == "missing":
        return f"the field '{name}' is missing: add it"
    if name == "q":
        several = ", or a list of texts where several are wanted" if len(first["loc"]) > 1 else ""
        return f"the field 'q' must be a text{several}"
    return f"the field '{name}' is wrong: {message[0].lower()}{message[1:]}"
