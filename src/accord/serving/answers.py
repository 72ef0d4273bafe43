"""What clients are told, in LibreTranslate's forms."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

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


class Sentence(_Answer):
    """One sentence and its translation."""

    source: str
    target: str
    kind: Kind
    """supervised: straight, with training data; zero-shot: straight, without; pivot: via others."""
    via: list[str]
    """Languages passed through."""
    score: float
    """Log-probability over a length penalty; through pivots the sum of the legs."""
    source_tokens: list[str]
    target_tokens: list[str]
    alignment: list[int]
    """For each target token the source token it attends to most; -1 for none."""
    pivot: str | None
    """The translation into the last language of `via`."""
    start: int
    """Where the sentence begins in its text, in Unicode characters."""
    end: int


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
    """A language and those it can be translated into."""

    code: str
    name: str
    targets: list[str]


class Name(_Answer):
    """A language."""

    code: str
    name: str


class Way(_Answer):
    """One direction."""

    source: str
    target: str
    kind: Literal["supervised", "zero-shot"]
    via: list[str]
    """The languages between on the shortest chain with training data; none where there is data."""


class Graph(_Answer):
    """What the model translates."""

    languages: list[Name]
    directions: list[Way]
    model: dict[str, str | int | None]


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
    supportedFilesFormat: list[str]
    language: Default
