"""Runs that an experiment names: what is wrong with one is said before anything is written."""

import pytest
import yaml
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import load, load_with_places
from accord.errors import AccordError
from accord.training.trainer import train
from toy_training import arguments, checkpoints, experiment, overrides, prepared, stop_at

KEYS = ("training.init_from", "objective.complete.teacher.run", "objective.dual.language_model")
SMALL = {"kind": "language-model", "units": 8, "decoder_layers": 1}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def runs(toy, tmp_path_factory):
    """Both kinds, one of other data, and one whose checkpoints are lost."""
    path = tmp_path_factory.mktemp("runs")
    train(experiment(toy, path / "basic", training__steps=2))
    train(experiment(toy, path / "language-model", model=SMALL, training__steps=2))
    other = prepared(path, lines=50)
    train(experiment(other, path / "other", training__steps=2))
    train(experiment(other, path / "other-language-model", model=SMALL, training__steps=2))
    train(experiment(toy, path / "lost", training__steps=1))
    (path / "lost/checkpoints").rename(path / "lost/moved")
    return path


def refused(toy, run, *items) -> str:
    """What `accord train` says; the run directory is not even made."""
    flags = [part for item in items for part in ("--set", item)]
    result = CliRunner().invoke(app, [*arguments(toy, run), *flags])
    assert isinstance(result.exception, AccordError), result.output
    assert not run.exists()
    return str(result.exception)


@pytest.mark.parametrize("key", KEYS)
def test_a_wrong_path_names_key_value_and_remedy(toy, tmp_path, key):
    missing = tmp_path / "nowhere"
    said = refused(toy, tmp_path / "run", f"{key}={missing}")
    place = f"--set {key}={missing}, key {key}"
    assert said.startswith(f"{place}: {missing}: this is no run directory: it is not there\n")
    assert "fix: check the path; give the directory that `accord train` wrote" in said
    assert CliRunner().invoke(app, ["config", str(toy), "--set", f"{key}={missing}"]).exit_code == 0


def test_a_wrong_path_in_the_file_has_its_line(toy, tmp_path):
    file = tmp_path / "dual.yaml"
    settings = {"objective": {"dual": {"weight": 0.5, "language_model": "$HOME/no/such/run"}}}
    file.write_text(toy.read_text("utf-8") + yaml.safe_dump(settings), "utf-8")
    line = file.read_text("utf-8").splitlines().index("    language_model: $HOME/no/such/run") + 1
    said = refused(file, tmp_path / "run")
    assert said.startswith(f"{file}, line {line}, key objective.dual.language_model: ")
    assert "/no/such/run: this is no run directory" in said
    assert CliRunner().invoke(app, ["config", str(file)]).exit_code == 0


@pytest.mark.parametrize(
    ("key", "name", "what"),
    [
        ("training.init_from", "other", "was trained on other data"),
        ("training.init_from", "lost", "there is no checkpoint to start from"),
        ("objective.complete.teacher.run", "other", "the teacher has another vocabulary"),
        ("objective.complete.teacher.run", "lost", "no checkpoint yet"),
        ("objective.complete.teacher.run", "language-model", "translates nothing"),
        ("objective.dual.language_model", "other-language-model", "has another vocabulary"),
        ("objective.dual.language_model", "lost", "not of a language model"),
        ("objective.dual.language_model", "basic", "not of a language model"),
    ],
)
def test_a_run_that_is_of_no_use_is_refused_as_early(toy, runs, tmp_path, key, name, what):
    said = refused(toy, tmp_path / "run", f"{key}={runs / name}")
    assert said.startswith(f"--set {key}={runs / name}, key {key}: {runs / name}")
    assert what in said


def test_what_is_left_out_is_not_looked_for(toy, tmp_path):
    keys = {
        "objective__dual": {"weight": 0.0, "language_model": "nowhere"},
        "objective__complete": {"weight": 0.0, "teacher": {"run": "nowhere"}},
    }
    assert train(experiment(toy, tmp_path, training__steps=1, **keys)).finished


@pytest.mark.parametrize(
    ("key", "name", "steps"),
    [
        ("objective.complete.teacher.run", "basic", {"objective.complete.start": 90}),
        ("objective.dual.language_model", "language-model", {"objective.dual.start": 90}),
    ],
)
def test_a_run_that_goes_on_says_what_was_moved(toy, runs, tmp_path, monkeypatch, key, name, steps):
    """Its weights had not been copied, or are never."""
    named, run = tmp_path / "named", tmp_path / "run"
    named.symlink_to(runs / name)
    items = [*overrides(run, training__steps=6), f"{key}={named}"]
    items += [f"{other}={value}" for other, value in steps.items()]
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert not train(load(toy, items)).finished
    named.unlink()
    settings, places = load_with_places(toy, items)
    with pytest.raises(AccordError, match="this is no run directory: it is not there") as caught:
        train(settings, named=places)
    assert caught.value.where == f"--set {key}={named}, key {key}"
    assert checkpoints(run) == [3]
    named.symlink_to(runs / name)
    assert train(settings, named=places).step == 6


def test_a_branch_goes_on_without_the_run_that_it_began_from(toy, runs, tmp_path):
    named, run = tmp_path / "named", tmp_path / "run"
    named.symlink_to(runs / "basic")
    keys = {"training__init_from": str(named)}
    train(experiment(toy, run, training__steps=3, **keys))
    named.unlink()
    assert train(experiment(toy, run, training__steps=4, **keys), accept_changes=True).step == 4
