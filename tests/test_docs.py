"""The documentation: up to date with the code, its links lead somewhere, its examples hold."""

import importlib.util
import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
import typer
import yaml

from accord.cli import app
from accord.config.load import load
from accord.config.schema import Cleaning, Experiment, Format

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("research/**/*.md")])
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")


def blocks(page, language):
    return [text for kind, text in _FENCE.findall(TEXTS[page]) if kind == language]


def cases(language):
    found = [(page, text) for page in PAGES for text in blocks(page, language)]
    return [pytest.param(text, id=f"{page.name}-{n}") for n, (page, text) in enumerate(found)]


def make_reference():
    path = ROOT / "docs/make_reference.py"
    spec = importlib.util.spec_from_file_location("make_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says():
    page = (ROOT / "docs/experiment.md").read_text(encoding="utf-8")
    assert page == make_reference().reference(), "run `make docs`"


def test_the_reference_lists_every_key():
    def keys(schema):
        for section in [schema, *schema["$defs"].values()]:
            yield from section.get("properties", {})

    page = TEXTS[ROOT / "docs/experiment.md"]
    for key in keys(Experiment.model_json_schema()):
        assert f"| `{key}` |" in page


@pytest.mark.parametrize(("key", "short", "long"), make_reference().SHORTHANDS)
def test_a_shorthand_means_its_long_form(key, short, long):
    def experiment(text):
        data = {"name": "x", "languages": ["en", "de"]}
        if key.startswith("corpora."):
            return Experiment(**data, corpora=[{"pair": "en-de", **yaml.safe_load(text)}])
        inside = yaml.safe_load(text)
        for section in reversed(key.split(".")[:-1]):
            inside = {section: inside}
        return Experiment(**data, corpora=[{"pair": "en-de", "train": "t"}], **inside)

    assert experiment(short) == experiment(long)


def anchors(page):
    """The names that GitHub gives to the headings of a page."""
    prose = _FENCE.sub("", TEXTS[page])
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = _INLINE.sub("", _FENCE.sub("", TEXTS[page]))
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


COMMANDS = typer.main.get_command(app).commands
SHOWN = sorted(
    {
        line.removeprefix("$ ").partition(" # ")[0].strip()
        for page in PAGES
        for kind in ("", "sh", "console")
        for text in blocks(page, kind)
        for line in text.splitlines()
        if re.match(r"(\$ )?accord ", line)
    }
)


@pytest.mark.parametrize("line", SHOWN)
def test_commands_shown_exist_with_their_options(line):
    _, name, *arguments = shlex.split(line)
    assert name in COMMANDS
    # Parses and checks the arguments, but runs nothing.
    COMMANDS[name].make_context(name, arguments)


def test_commands_are_found_and_wrong_ones_would_be_noticed():
    assert len(SHOWN) > 8
    with pytest.raises(Exception, match="No such option"):
        COMMANDS["prepare"].make_context("prepare", ["x.yaml", "--wrokers", "2"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_exist(page):
    for code in _INLINE.findall(_FENCE.sub("", TEXTS[page])):
        if found := re.match(r"accord ([a-z][a-z-]*)", code):
            assert found[1] in COMMANDS, code


@pytest.mark.parametrize("text", cases("yaml"))
def test_experiment_files_shown_are_valid(tmp_path, text):
    path = tmp_path / "shown.yaml"
    path.write_text(text, encoding="utf-8")
    load(path)


@pytest.mark.parametrize("text", cases("python"))
def test_python_shown_compiles_and_its_imports_exist(text):
    compile(text, "shown", "exec")
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    exec("\n".join(imports), {})


def test_formats_and_cleaning_steps_are_described():
    page = TEXTS[ROOT / "docs/prepare.md"]
    for name in set(get_args(Format)) - {"auto"}:
        assert f"| `{name}` |" in page
    for key in Cleaning.model_fields:
        assert f"| `cleaning.{key}` |" in page


def test_files_named_in_the_layout_exist():
    page = TEXTS[ROOT / "docs/architecture.md"]
    table = page.partition("`src/accord/`, ")[2].partition("\n\n")[2].partition("\n\n")[0]
    names = re.findall(r"`([\w/]+(?:\.py|/))`", re.sub(r" \| .*", "", table))
    assert len(names) > 10
    for name in names:
        assert (ROOT / "src/accord" / name).exists(), name
    there = {path.name for path in (ROOT / "src/accord").iterdir() if path.name[0] != "_"}
    assert there - {"py.typed"} == {name.strip("/") for name in names}
