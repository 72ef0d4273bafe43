"""Reading an experiment file: every complaint names file, line, key, value and what is allowed."""

import difflib
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from accord.config.checks import contradictions, dotted
from accord.config.schema import Experiment
from accord.config.section import Location, Naming, Section
from accord.config.validation_errors import QUOTE_BRACE, explained, joined
from accord.errors import AccordError
from accord.files import expand, names_in

_Kind = TypeVar("_Kind", bound=Section)
_START = "start from one of recipes/*.yaml; `accord config --schema` lists the keys"


class _Document:
    """YAML text with the line of every key, and the overrides given on the command line."""

    def __init__(self, path: Path, what: str = "experiment file", start: str = _START) -> None:
        self.path = path
        self.overrides: dict[Location, str] = {}
        try:
            text = path.read_text(encoding="utf-8")
            self.root = yaml.compose(text, yaml.SafeLoader)
            self.data = yaml.safe_load(text)
        except FileNotFoundError:
            near = difflib.get_close_matches(path.name, names_in(path.parent), n=1)
            hint = f"did you mean {path.with_name(near[0])}?" if near else "check the path"
            raise AccordError(f"there is no such {what}", where=str(path), fix=hint) from None
        except OSError as error:
            raise AccordError(
                f"cannot be read: {error.strerror or error}",
                where=str(path),
                fix="name a file that you may read",
            ) from None
        except yaml.MarkedYAMLError as error:
            raise _no_yaml(error, text, str(path)) from None
        # ValueError: bytes that are no UTF-8, and dates and numbers that are none.
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            what = " ".join(str(error).replace('in "<unicode string>", ', "").split())
            raise AccordError(
                f"not a readable YAML file: {what}", where=str(path), fix="mend the file"
            ) from None
        self._refuse_repeated_keys(self.root, set())
        if not isinstance(self.data, dict):
            raise AccordError(
                f"{'an' if what[0] in 'aeiou' else 'a'} {what} is a mapping of keys to values",
                where=str(path),
                fix=start,
            )

    def _refuse_repeated_keys(self, node: yaml.Node | None, visited: set[yaml.Node | None]) -> None:
        # YAML lets the last of two equal keys win without a word.
        if node in visited:  # by way of an alias, which may even lead in a circle
            return
        visited.add(node)
        if isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.value in seen:
                    raise AccordError(
                        f"key {key.value!r} was given before, in line {seen[key.value]}",
                        where=f"{self.path}, line {line}",
                        fix="keep one of the two",
                    )
                seen[key.value] = line
                self._refuse_repeated_keys(value, visited)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._refuse_repeated_keys(item, visited)

    def override(self, assignment: str) -> None:
        """Apply one `a.b=c`; the value is read as YAML, list items are numbered from 0."""
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise AccordError(
                f"not of the form key=value: {assignment!r}",
                where="--set",
                fix="write the key, an equals sign and the value: --set training.steps=800",
            )
        # `isdecimal` alone says yes to the digits of every script, `isdigit` even to exponents.
        parts: list[str | int] = [
            int(p) if p.isascii() and p.isdecimal() else p for p in key.split(".")
        ]
        try:
            value = yaml.safe_load(text)
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            raise AccordError(
                f"the value is not YAML: {error}", where=f"--set {assignment}"
            ) from None
        place: Any = self.data
        for part, following in pairwise(parts):
            place = self._enter(place, part, following, assignment)
        self._enter(place, parts[-1], None, assignment)
        place[parts[-1]] = value
        self.overrides[tuple(parts)] = assignment

    @staticmethod
    def _enter(place: Any, part: str | int, following: str | int | None, assignment: str) -> Any:
        if isinstance(place, list) and isinstance(part, int) and part < len(place):
            if following is not None and isinstance(place[part], str):
                place[part] = {"path": place[part]}
            return place[part]
        if isinstance(place, dict) and isinstance(part, str):
            if following is not None:
                place[part] = _written_out(part, place.get(part), following)
            return place.get(part)
        raise AccordError(
            f"there is no place {part!r} to set", where=f"--set {assignment}", fix="check the key"
        )

    def where(self, location: Location) -> str:
        """File and line of a key, or the override that set it."""
        for length in range(len(location), 0, -1):
            if location[:length] in self.overrides:
                return f"--set {self.overrides[location[:length]]}"
        node, line, absent = self.root, 1, len(location) + 1
        for depth, part in enumerate(location, start=1):
            found = _child(node, part)
            if found is not None:
                node, line = found
            elif absent > depth:
                # What lies below a shorthand, which is no mapping, is in the file all the same.
                spelt_out = isinstance(node, yaml.MappingNode) and isinstance(part, str)
                absent = depth if spelt_out else len(location)
        for length in range(len(location), absent - 1, -1):  # sections that only overrides made
            for key, text in self.overrides.items():
                if key[:length] == location[:length]:
                    return f"--set {text}" if length == len(location) else f"beside --set {text}"
        return f"{self.path}, line {line}"

    def named(self, location: Location) -> str:
        """The same, and the key itself."""
        return f"{self.where(location)}, key {dotted(location)}"


def _no_yaml(error: yaml.MarkedYAMLError, text: str, where: str) -> AccordError:
    """Which line is no YAML; the likeliest slip is a path that begins with a brace."""
    marks = [mark for mark in (error.problem_mark, error.context_mark) if mark is not None]
    lines = text.splitlines()
    near = [lines[mark.line] for mark in marks if mark.line < len(lines)]
    if braces := [
        line for line in near if re.search(r":\s*\{(lang|name)\}|-\s+\{(lang|name)\}", line)
    ]:
        marks = [mark for mark in marks if lines[mark.line] == braces[0]]
    line = f", line {marks[0].line + 1}" if marks else ""
    return AccordError(
        f"not a readable YAML file: {error.problem or error.context}"
        + (f" in {near[0].strip()!r}" if near and not braces else ""),
        where=f"{where}{line}",
        fix=f"{QUOTE_BRACE}: {braces[0].strip()}" if braces else "mend the line, or the one before",
    )


def _written_out(key: str, value: Any, following: str | int) -> Any:
    """What stands at a key, with room for the key after it: shorthands are written out."""
    if key == "train" and isinstance(following, int) and isinstance(value, str | dict):
        return [value]
    if key in ("dev", "test") and following == "sets" and isinstance(value, list):
        return {"sets": value}
    if isinstance(value, str):
        names = {
            "overlap": "mode",
            "optimizer": "kind",
            "agreement": "preset",
            "complete": "preset",
        }
        return {names.get(key, "path"): value}
    return {} if value is None else value


def _child(node: yaml.Node | None, part: str | int) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        item = node.value[part]
        return item, item.start_mark.line + 1
    return None


def load(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment in `path` with `--set` overrides applied, or an error that says it all."""
    return load_with_places(path, overrides)[0]


def load_with_places(path: Path, overrides: Sequence[str] = ()) -> tuple[Experiment, Naming]:
    """The same, and how to name its keys to whoever gave them."""
    document = _Document(path)
    document.data.setdefault("name", path.stem)
    for assignment in overrides:
        document.override(assignment)
    experiment = _validated(document, Experiment)
    problems = [
        AccordError(what, where=document.named(loc), fix=fix)
        for loc, what, fix in contradictions(experiment)
    ]
    if problems:
        raise joined(problems)
    return experiment, document.named


def load_section(
    path: Path, kind: type[_Kind], what: str, start: str
) -> tuple[_Kind, Callable[[Location], str]]:
    """Another YAML file, as strict and with the same complaints; and where each key stands.

    `what` it is called and how to `start` one is said to those who give something else.
    """
    document = _Document(path, what, start)
    return _validated(document, kind), document.where


def _validated(document: _Document, kind: type[_Kind]) -> _Kind:
    try:
        return kind.model_validate(document.data)
    except ValidationError as error:
        raise joined(explained(error, kind, document.where)) from None


def dump(experiment: Experiment) -> str:
    """The resolved experiment as YAML: every key with the value in force."""
    data = experiment.model_dump(mode="json")
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100))


def store_directory(experiment: Experiment) -> Path:
    """Where the experiment's prepared data lies."""
    return Path(expand(experiment.store.replace("{name}", experiment.name)))


def run_directory(experiment: Experiment) -> Path:
    """Where the experiment's model and results lie."""
    return Path(expand(experiment.run.replace("{name}", experiment.name)))
