"""Dockerfile and compose.yaml: what they name exists, and the command in them is understood."""

import json
import re
from pathlib import Path

import typer
import yaml

from accord.cli import app

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def instruction(name):
    return [line.partition(" ")[2].strip() for line in TEXT.splitlines() if line.startswith(name)]


def test_what_is_copied_exists_and_is_not_kept_from_the_builder():
    for line in instruction("COPY"):
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in IGNORED


def test_the_build_needs_no_other_file():
    """What pyproject.toml names is copied: the package, its recipes, its licence and page."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    copied = " ".join(instruction("COPY")).split()
    for name in ("README.md", "LICENSE", "recipes", "src"):
        assert name in project
        assert name in copied


def test_the_command_is_one_of_accords():
    (entry,), (arguments,) = instruction("ENTRYPOINT"), instruction("CMD [")
    assert json.loads(entry) == ["accord"]
    name, *rest = json.loads(arguments)
    context = typer.main.get_command(app).commands[name].make_context(name, rest)
    assert context.params["host"] == "0.0.0.0"
    assert f"EXPOSE {context.params['port']}" in TEXT


def test_the_extras_exist():
    (names,) = re.findall(r"'\.\[([\w,]+)\]'", TEXT)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in names.split(","):
        assert re.search(rf"^{name} = \[", project, re.MULTILINE)


def test_compose_builds_the_same_and_mounts_a_model():
    (service,) = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"].values()
    assert set(service["build"]["args"]) == {line.split("=")[0] for line in instruction("ARG")}
    (volume,) = service["volumes"]
    assert volume.endswith(":/model:ro")
    assert service["ports"] == ["127.0.0.1:5000:5000"]
