"""Writes docs/experiment.md, the reference of the experiment file, from the code (`make docs`)."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from accord.config.schema import Directory, Experiment
from accord.config.section import Language, Pair, Section

PAGE = Path(__file__).with_name("experiment.md")

# What may be written shorter: key, short form, the same written out. A test compares the two.
SHORTHANDS = (
    ("corpora.train", 'train: "a.{lang}"', 'train: [{path: "a.{lang}"}]'),
    ("corpora.train", 'train: ["a.{lang}", b.tmx]', 'train: [{path: "a.{lang}"}, {path: b.tmx}]'),
    ("dev", 'dev: "dev.{lang}"', 'dev: {path: "dev.{lang}"}'),
    ("dev", "dev: [{pair: en-de, path: dev.tsv}]", "dev: {sets: [{pair: en-de, path: dev.tsv}]}"),
    ("overlap", "overlap: keep", "overlap: {mode: keep}"),
    ("training.optimizer", "optimizer: adam", "optimizer: {kind: adam}"),
    ("objective.agreement", "agreement: paper", "agreement: {preset: paper}"),
    ("objective.complete", "complete: word-sampling", "complete: {preset: word-sampling}"),
)
_WITH_SHORTHAND = {key for key, _, _ in SHORTHANDS} | {"test"}

_BOUNDS = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}

_HEAD = """\
# The experiment file

<!-- Made by docs/make_reference.py from src/accord/config/: change that, then `make docs`. -->

One YAML file says what an experiment is made of. [`accord init`](own-data.md) writes one for your
text; `accord recipes` lists those that come along. Only `languages` and `corpora` are required:

```yaml
languages: [en, de, es, fr]
corpora:
  - {pair: en-de, train: "data/europarl-v7.de-en.{lang}.gz"}
  - {pair: en-es, train: ["data/books.{lang}", data/memory.tmx], limit: 500000}
  - pair: en-fr
    train: {path: data/crawl.en-fr.tsv.zst, columns: {en: 2, fr: 3}}
dev: "data/dev.{lang}"
test: "data/test.{lang}"
overlap: {mode: disjoint, matching: normalised}
cleaning: {wrong_language: true}
vocabulary: {size: 16000}
model: {kind: transformer, preset: transformer}
```

**Say which model.** For a new experiment take the Transformer, as above. A file that names no model
trains the paper's GNMT, and will go on doing so: an old file does not become another experiment
because a new kind of model has come.

```
accord config recipes/demo.yaml                   # check a file; print it with every key in force
accord config recipes/demo.yaml --set seed=7      # the same with a key changed
accord config --schema                            # JSON schema, for editors
```

- Relative paths start at the directory in which `accord` runs, not at the experiment file. `~` and
  `$VARIABLES` are filled in; a variable that is not set is an error.
- Paths with `{lang}` need quotes where YAML would read the brace as its own.
- A language code is two or three small letters, with a script or region after an underscore where
  one is needed: `de`, `fra`, `zho_Hant`.
- An unknown key is an error that names line, key and the nearest known key. So is a key that is
  given twice.
- Some rules bind several keys: each language is listed once, each pair of languages has one corpus
  (with as many files as you like), the corpora connect all languages, `overlap.pairs` is given for
  mode `pairwise` and only then, and names zero-shot pairs.

## Changing keys on the command line

`config`, `graph`, `prepare`, `train` and `reproduce` take `--set KEY=VALUE`, as often as needed.
Dots lead into sections, items of lists are numbered from 0, and the value is read as YAML (so lists
and mappings work; quote them for the shell). Errors in it name the `--set` instead of a line.

```
accord config recipes/demo.yaml --set vocabulary.size=800 --set corpora.0.limit=1000
accord config recipes/demo.yaml --set 'overlap={mode: pairwise, pairs: [de-fr]}'
accord config recipes/demo.yaml --set cleaning.max_ratio=null
```

A shorthand makes room for its long form: `--set overlap.matching=normalised` works on a file that
says `overlap: disjoint`.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(reference(), encoding="utf-8")


def reference() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD, "\n".join(_shorthands())]
    sections = _sections()
    for section, paths in sections.items():
        parts.append("\n".join(_section(section, paths, sections)))
    return "\n".join(parts)


def _shorthands() -> Iterator[str]:
    yield "## Shorthands\n"
    yield "| short | the same written out |"
    yield "|---|---|"
    for _, short, long in SHORTHANDS:
        yield f"| `{short}` | `{long}` |"
    yield "\n`test` is written as `dev` is.\n"


def _sections() -> dict[type[Section], list[str]]:
    """Every section of the file with the keys it stands under, in the order of the file."""
    found: dict[type[Section], list[str]] = {Experiment: []}

    def visit(section: type[Section], prefix: str) -> None:
        for key, field in section.model_fields.items():
            inside = _section_inside(field.annotation)
            if inside is not None:
                found.setdefault(inside, []).append(f"{prefix}{key}")
                visit(inside, f"{prefix}{key}.")

    visit(Experiment, "")
    return found


def _section_inside(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for a in get_args(annotation) if (found := _section_inside(a))), None)


def _title(paths: list[str]) -> str:
    return ", ".join(paths) or "All keys"


def _link(section: type[Section], sections: Mapping[type[Section], list[str]]) -> str:
    title = _title(sections[section])
    return f"[{title}](#{re.sub(r'[^a-z0-9 _-]', '', title.lower()).replace(' ', '-')})"


def _section(
    section: type[Section], paths: list[str], sections: Mapping[type[Section], list[str]]
) -> Iterator[str]:
    yield f"## {_title(paths)}\n"
    yield " ".join((section.__doc__ or "").split()) + "\n"
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for key, field in section.model_fields.items():
        path = f"{paths[0]}.{key}" if paths else key
        value = _limited(field.annotation, tuple(field.metadata), sections)
        if path in _WITH_SHORTHAND:
            value += ", or a [shorthand](#shorthands)"
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{key}` | {value} | {_default(path, field)} | {meaning} |"
    yield ""


def _default(path: str, field: FieldInfo) -> str:
    if path == "name":
        return "the file's name"  # filled in by the reader of the file, not by the model
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, Section):
        return "see there"
    if value is None or value == ():
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _value(annotation: Any, sections: Mapping[type[Section], list[str]]) -> str:
    """What may be written for a key, in words."""
    if annotation == Language:
        return "language code"
    if annotation == Pair:
        return "pair such as `en-de`"
    if annotation == Directory:
        return "path, without control characters"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _limited(arguments[0], arguments[1:], sections)
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_value(a, sections) for a in arguments)
    if origin is tuple:
        return f"list, each: {_value(arguments[0], sections)}"
    if origin is dict:
        return f"mapping of {' to '.join(_value(a, sections) for a in arguments)}"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return _link(annotation, sections)
    words = {str: "text", bool: "`true`, `false`", int: "whole number", float: "number"}
    return words.get(annotation, "`null`")


def _limited(inner: Any, limits: tuple[Any, ...], sections: Mapping[type[Section], Any]) -> str:
    # pydantic hands string patterns and numeric limits on in several forms; all carry these names.
    found: dict[str, Any] = {}
    for limit in limits:
        for part in (limit, *getattr(limit, "metadata", ())):
            for name in ("ge", "gt", "le", "lt", "pattern"):
                if getattr(part, name, None) is not None:
                    found[name] = getattr(part, name)
    for known in (Language, Pair, Directory):
        if found.get("pattern") == get_args(known)[1].pattern:
            return _value(known, sections)
    words = _value(inner, sections)
    if "pattern" in found:
        return f"{words} like `{found['pattern']}`"
    bounds = [f"{word} {_number(found[name])}" for name, word in _BOUNDS.items() if name in found]
    return " ".join([words, *bounds])


def _number(value: float) -> str:
    # The largest seed is no number to read.
    return f"2^{value.bit_length() - 1}" if isinstance(value, int) and value > 2**32 else str(value)


if __name__ == "__main__":
    main()
