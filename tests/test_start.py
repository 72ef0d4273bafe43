"""`accord init` and `accord recipes` as a user meets them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import load
from accord.config.shipped import recipe, shipped, shipped_plan
from accord.errors import AccordError

EN = [f"The house number {n} stands at the end of the long street." for n in range(120)]
DE = [f"Das Haus Nummer {n} steht am Ende der langen Straße." for n in range(120)]


def run(*arguments, code=0):
    done = CliRunner().invoke(app, list(arguments))
    if isinstance(done.exception, AccordError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for language, lines in (("en", EN), ("de", DE)):
        path = Path(f"texts/letters.{language}")
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_init_writes_a_file_and_says_how_to_go_on(here):
    done = run("init", "-q")
    assert "en-de: 120 lines in texts/letters.{lang}" in done.stdout
    assert "● supervised" in done.stdout
    assert "accord prepare experiment.yaml\n  accord train experiment.yaml\n  echo" in done.stdout
    assert "| accord translate runs/experiment --to de" in done.stdout
    experiment = load(Path("experiment.yaml"))
    assert experiment.corpora[0].train[0].path == "texts/letters.{lang}"
    text = Path("experiment.yaml").read_text()
    with pytest.raises(AccordError, match="there is such a file already"):
        run("init", "-q")
    assert Path("experiment.yaml").read_text() == text


def test_init_for_programs(here):
    done = run("init", "texts", "--output", "new/mine.yaml", "--pairs", "de-en", "--json", "-q")
    facts = json.loads(done.stdout)
    assert facts["experiment"] == "new/mine.yaml"
    assert [(c["pair"], c["lines"]) for c in facts["corpora"]] == [("en-de", 120)]
    assert facts["dev"]["lines"] == facts["test"]["lines"] == 6
    assert facts["graph"]["supervised"] == ["en-de", "de-en"]
    assert facts["next"][0] == "accord prepare new/mine.yaml"
    assert load(Path("new/mine.yaml")).name == "mine"


def test_init_leaves_nothing_where_it_fails(here):
    Path("texts/letters.de").write_text("nur eine Zeile\n")
    with pytest.raises(AccordError, match="do not go together"):
        run("init", "-q")
    assert not Path("experiment.yaml").exists()
    assert "should end in .yaml" in run("init", "--output", "x.txt", code=2).output


def test_recipes_are_listed_printed_and_copied(here):
    listed = run("recipes").stdout
    assert "\nmulti30k-transformer " in listed
    assert "\nplans/demo " in listed
    facts = json.loads(run("recipes", "--json").stdout)
    assert [item["name"] for item in facts] == [item.name for item in shipped()]
    assert all(item["title"] for item in facts)
    assert run("recipes", "demo").stdout == recipe("demo").read_text()
    run("recipes", "demo", "--copy")
    run("recipes", "plans/demo", "--copy", "mine/plan.yaml")
    run("recipes", "multi30k", "--copy", "mine")
    assert Path("demo.yaml").read_text() == recipe("demo").read_text()
    assert Path("mine/plan.yaml").read_text() == shipped_plan("demo").read_text()
    assert Path("mine/multi30k.yaml").read_text() == recipe("multi30k").read_text()
    Path("demo.yaml").write_text("mine")
    with pytest.raises(AccordError, match="there is such a file already"):
        run("recipes", "demo", "--copy")
    assert Path("demo.yaml").read_text() == "mine"


def test_recipes_that_are_not_there(here):
    with pytest.raises(AccordError, match="there is no recipe 'demoo'") as caught:
        run("recipes", "demoo")
    assert "did you mean 'demo'?" in caught.value.fix
    assert "needs the NAME" in run("recipes", "--copy", code=2).output
    assert "did you mean --copy x.yaml?" in run("recipes", "demo", "x.yaml", code=2).output
