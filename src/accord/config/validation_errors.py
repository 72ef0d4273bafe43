"""Validation errors: what pydantic found wrong with a file, in terms of the file and its keys."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from accord.config.checks import dotted
from accord.config.schema import Directory
from accord.config.section import Language, Location, Pair
from accord.errors import AccordError

QUOTE_BRACE = "put a value that begins with a brace in quotes, since YAML reads it as a mapping"
_Detail = Mapping[str, Any]


def joined(problems: Sequence[AccordError]) -> AccordError:
    """One error of several."""
    if len(problems) == 1:
        return problems[0]
    return AccordError(f"{len(problems)} problems\n" + "\n".join(str(p) for p in problems))


def explained(
    error: ValidationError, kind: type[BaseModel], where: Callable[[Location], str]
) -> list[AccordError]:
    """What is wrong with a file of this kind; `where` tells the place of a key."""
    details = _by_key(kind, _telling(error.errors()))
    return [_explain(detail, others, kind, where) for detail, *others in details]


def _telling(details: Iterable[Any]) -> list[_Detail]:
    """The problems without those that only follow from others.

    A list is too short because one of its items was refused: that is said about the item.
    """
    details = list(details)
    places = [tuple(detail["loc"]) for detail in details]

    def follows(detail: Mapping[str, Any]) -> bool:
        loc = tuple(detail["loc"])
        inside = any(len(place) > len(loc) and place[: len(loc)] == loc for place in places)
        return detail["type"] == "too_short" and inside

    return [detail for detail in details if not follows(detail)]


def _by_key(kind: type[BaseModel], details: Iterable[_Detail]) -> Iterable[list[_Detail]]:
    """One list for each key: a value that may be this or that is neither, for a reason each.

    If it is at least a list or a section, as one of these is, its parts tell what is wrong.
    """
    named = [(detail, _keys(kind, detail["loc"])) for detail in details]
    found: dict[Location, list[_Detail]] = {}
    for detail, location in named:
        inside = any(len(p) > len(location) and p[: len(location)] == location for _, p in named)
        if location == detail["loc"] or not inside:
            found.setdefault(location, []).append({**detail, "loc": location})
    return found.values()


def _keys(kind: type[BaseModel], location: Location) -> Location:
    """Without the names that pydantic gives to what a value may be: `tokens.constrained-int`."""
    model: type[BaseModel] | None = kind
    kept: list[str | int] = []
    either = False
    for part in location:
        field = model.model_fields.get(part) if model and isinstance(part, str) else None
        if either and field is None and isinstance(part, str):
            either = False
            continue
        kept.append(part)
        if field is not None:
            either = _is_either(field.annotation)
            model = _section_inside(field.annotation)
    return tuple(kept)


def _is_either(annotation: Any) -> bool:
    """Whether it has several kinds of values, None apart."""
    kinds = set(get_args(annotation)) - {type(None)}
    return get_origin(annotation) in (Union, UnionType) and len(kinds) > 1


def _explain(
    detail: _Detail,
    others: Sequence[_Detail],
    kind: type[BaseModel],
    place: Callable[[Location], str],
) -> AccordError:
    location: Location = detail["loc"]
    where = f"{place(location)}, key {dotted(location)}"
    value = detail["input"]
    if detail["type"] == "extra_forbidden" and location[-1] in ("lang", "name") and value is None:
        return AccordError(
            f"{{{location[-1]}}} was read as a mapping, not as text", where=where, fix=QUOTE_BRACE
        )
    if detail["type"] == "extra_forbidden":
        known = _keys_at(kind, location[:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.4)
        fix = f"did you mean {near[0]!r}? " if near else ""
        return AccordError(
            f"unknown key {location[-1]!r}", where=where, fix=f"{fix}known here: {', '.join(known)}"
        )
    if detail["type"] == "missing":
        return AccordError(
            f"the key {location[-1]!r} is missing", where=where, fix=_description(kind, location)
        )
    reasons = dict.fromkeys(map(_reason, (detail, *others)))
    what = f"{_shown(value)} is not allowed: {', or '.join(reasons)}"
    if isinstance(value, bool) and detail["type"] in ("string_type", "invalid_key"):
        fix = "YAML reads no, yes, on and off as false and true: put the word in quotes"
        return AccordError(what, where=where, fix=fix)
    number = _number(value) if detail["type"] in _NO_NUMBER and isinstance(value, str) else None
    if number is not None:
        fix = f"YAML reads {value} as text: write {number}"
        return AccordError(what, where=where, fix=fix)
    bounds = _bounds(detail)
    fix = " ".join(_description(kind, location).split())
    return AccordError(what, where=where, fix=f"give {bounds}. {fix}" if bounds else fix)


_NO_NUMBER = ("int_type", "int_parsing", "float_type", "float_parsing")


def _number(text: str) -> str | None:
    """What is a number to everybody but YAML 1.1 (1e-3), as that writes it."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not isfinite(value):
        return None
    plain = int(value) if value.is_integer() else value
    return str(yaml.safe_dump(plain)).split("\n", 1)[0]


def _shown(value: object) -> str:
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    if isinstance(value, list | tuple):
        return "a list"
    return "a section of keys" if isinstance(value, dict) else type(value).__name__


# What pydantic would say in its own terms.
_REASONS = {
    "dict_type": "a section of keys with values is needed here",
    "model_type": "a section of keys with values is needed here",
    "model_attributes_type": "a section of keys with values is needed here",
    "tuple_type": "a list is needed here, as [one, two]",
    "list_type": "a list is needed here, as [one, two]",
    "string_type": "a text is needed here",
    "int_type": "a whole number (integer) is needed here",
    "int_from_float": "a whole number (integer) is needed here",
    "int_parsing": "a whole number (integer) is needed here",
    "float_type": "a number is needed here",
    "float_parsing": "a number is needed here",
    "bool_type": "true or false is needed here",
    "bool_parsing": "true or false is needed here",
}
# Examples of texts of a form, by the pattern of each.
_FORMS = {
    get_args(kind)[1].pattern: words
    for kind, words in (
        (Language, "a language is written as en, or pt_BR"),
        (Pair, "a pair is written as en-de"),
        (Directory, "a directory has a name without control characters"),
    )
}


def _reason(detail: Mapping[str, Any]) -> str:
    told = detail.get("ctx", {})
    if detail["type"] == "string_pattern_mismatch":
        return _FORMS.get(told["pattern"], "letters and digits, and after the first also . + - _")
    if detail["type"] in ("too_short", "too_long"):
        least, most = told.get("min_length"), told.get("max_length")
        wanted = f"at least {least}" if least else f"at most {most}"
        return f"it has {told['actual_length']} items, {wanted} are needed"
    return _REASONS.get(detail["type"], str(detail["msg"]).removeprefix("Input "))


def _bounds(detail: Mapping[str, Any]) -> str:
    """What a number may be, as far as it is out of it."""
    words = {"ge": "{} or more", "gt": "more than {}", "le": "{} or less", "lt": "less than {}"}
    told = detail.get("ctx", {})
    return next((text.format(told[key]) for key, text in words.items() if key in told), "")


def _model_at(kind: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """The section in which the last part of `location` would be a key."""
    model: type[BaseModel] | None = kind
    for part in location:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part) if model else None
        model = _section_inside(field.annotation) if field else None
    return model


def _section_inside(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for a in get_args(annotation) if (found := _section_inside(a))), None)


def _keys_at(kind: type[BaseModel], location: Location) -> list[str]:
    model = _model_at(kind, location)
    return list(model.model_fields) if model else []


def _description(kind: type[BaseModel], location: Location) -> str:
    names = [part for part in location if isinstance(part, str)]
    model = _model_at(kind, tuple(names[:-1]))
    field = model.model_fields.get(names[-1]) if model and names else None
    return f"{names[-1]}: {field.description}" if field and field.description else "see the docs"
