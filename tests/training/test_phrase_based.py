"""A phrase-based run as a whole: trained, killed, told to stop, translated by, changed."""

import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import load
from accord.data.store import HeldOutSets
from accord.errors import AccordError
from accord.evaluation.evaluate import evaluate_run
from accord.evaluation.records import Evaluation
from accord.graph import Direction
from accord.inference.backends.base import LoadSettings
from accord.inference.backends.combined_backend import CombinedBackend, combine
from accord.inference.backends.loading import load_run
from accord.inference.translator import Translator
from accord.phrases.train import STAGES, Task, open_decoder, train_direction
from accord.progress import Silent
from accord.studies import branches
from accord.training.phrase_based import train_phrase_based
from accord.training.trainer import train
from toy_phrases import LINES, MODEL, prepared_phrases
from toy_training import number


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    return prepared_phrases(tmp_path_factory.mktemp("phrase-based"))


def experiment(toy: Path, run: Path, *overrides: str):
    return load(toy, [f"run={run}", *overrides])


@pytest.fixture(scope="module")
def trained(toy, tmp_path_factory) -> Path:
    """A run that nothing happened to."""
    run = tmp_path_factory.mktemp("trained")
    result = train_phrase_based(experiment(toy, run))
    assert (result.finished, result.reason) == (True, "4 directions trained")
    return run


def files(directory: Path) -> dict[str, bytes]:
    """All that was learnt; a note says how long it took as well, but what of is in it, too."""
    found = {file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()}
    notes = {name: json.loads(found[name]) for name in found if name.endswith(".note.json")}
    return found | {name: json.dumps(note["files"]).encode() for name, note in notes.items()}


def test_every_direction_with_data_has_a_system(trained):
    names = sorted(path.name for path in (trained / "directions").iterdir())
    assert names == ["de-en", "en-de", "en-fr", "fr-en"]
    weights = json.loads((trained / "directions/de-en/weights.json").read_bytes())
    assert weights["bleu"] >= weights["first_bleu"]


def test_it_translates_directly_and_through_the_pivot(trained):
    translator = Translator(trained)
    texts = [number(value, "de") for value in (9402, 38, 561)]
    english = translator.translate(texts, "en", source="de")
    assert [each.text for each in english] == [number(value, "en") for value in (9402, 38, 561)]
    french = translator.translate(texts, "fr", source="de", via="auto")
    assert [each.text for each in french] == [number(value, "fr") for value in (9402, 38, 561)]
    assert french[0].via == ("en",)
    assert [each.text for each in translator.translate(["", " "], "en", source="de")] == ["", ""]


def test_its_score_is_told_but_no_probability(trained, tmp_path):
    (tmp_path / "text.de").write_text("null drei\n\n", encoding="utf-8")

    def said(*options):
        files = ["--input", str(tmp_path / "text.de"), "--output", str(tmp_path / "out")]
        command = ["translate", str(trained), "--from", "de", *options, "--json", "-q", *files]
        assert CliRunner().invoke(app, command).exit_code == 0
        lines = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    direct, empty = said("--to", "en")
    [first] = direct["hypotheses"]
    assert (first["text"], first["log_probability"]) == ("zero three", None)
    assert first["score"] != 0
    assert [(h["log_probability"], h["score"]) for h in empty["hypotheses"]] == [(None, 0)]
    pivoted, empty = said("--to", "fr", "--via", "auto")
    [last] = pivoted["hypotheses"]
    assert (last["text"], last["log_probability"]) == ("zéro trois", None)
    assert pivoted["pivot"]["hypotheses"] == [first]
    # The score is the sum over the legs, in whatever a score is told.
    [onward] = Translator(trained).translate(["zero three"], "fr", source="en")
    assert last["score"] == pytest.approx(first["score"] + onward.hypotheses[0].score)
    assert empty["hypotheses"][0]["log_probability"] is None


def test_it_is_evaluated_directly_or_through_the_pivot(trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    said = ["evaluate", str(tmp_path), "--split", "dev", "--beam", "8"]
    told = CliRunner().invoke(app, said, env={"COLUMNS": "200"})
    assert "search of its own: --beam and other search options do not apply" in told.stdout
    found = Evaluation.load(tmp_path / "evaluation/dev-beam8")
    assert found.search == {}
    direct = {f"{row.source}-{row.target}": row.bleu.score for row in found.directions}
    by_pivot = {f"{row.source}-{row.target}": row.bleu.score for row in found.via_pivot}
    assert set(direct) == {"de-en", "en-de", "en-fr", "fr-en"}
    assert set(by_pivot) == {"de-fr", "fr-de"}
    assert min(*direct.values(), *by_pivot.values()) > 99
    assert CliRunner().invoke(app, ["report", str(tmp_path)]).exit_code == 0
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Phrase-based" in report
    assert "by the systems of run" in report
    # Its systems have a search of their own; the name says what was asked for, the note is on it.
    assert "beam" not in report.replace("dev-beam8", "").replace("--beam and other", "")


def test_options_of_a_search_that_it_does_not_have_are_told(trained, tmp_path):
    def said(name, *options):
        file = tmp_path / name
        file.write_text("null\n", encoding="utf-8")
        files = ["--input", str(file), "--output", str(tmp_path / f"out-{name}")]
        command = ["translate", str(trained), "--from", "de", "--to", "en", "-q", *files, *options]
        found = CliRunner().invoke(app, command)
        assert found.exit_code == 0, found.output
        return [line for line in found.stderr.splitlines() if line.startswith("accord: ")]

    told = "accord: the model has a search of its own, which does not read"
    assert said("text.txt", "--threads", "1") == []
    assert said("text.txt", "--beam", "8") == [f"{told} --beam"]
    assert said("text.txt", "--json", "--beam", "8", "--nbest", "2") == [f"{told} --beam, --nbest"]
    assert said("document.md", "--length-penalty", "1") == [f"{told} --length-penalty"]


def test_put_together_with_networks_settings_apply_to_these(trained, tmp_path):
    runs = {Direction("de", "en"): trained, Direction("en", "fr"): trained}
    combine(tmp_path / "phrases", runs)
    assert not Translator(tmp_path / "phrases").reads_search_settings
    shutil.copytree(trained, tmp_path / "network")
    combine(tmp_path / "both", runs | {Direction("en", "fr"): tmp_path / "network"})

    def load(path, settings):
        found = load_run(path, settings)
        found.reads_search_settings = path.name == "network"
        return found

    both = CombinedBackend(tmp_path / "both", LoadSettings(), load)
    assert Translator.of(both).reads_search_settings


def test_a_study_knows_what_of_it_is_done(toy, tmp_path):
    run, name = tmp_path / "run", "dev-beam4-last"
    wanted = experiment(toy, run)
    assert not branches.trained(run, wanted)
    train_phrase_based(wanted)
    assert branches.trained(run, wanted)
    assert not branches.trained(run, experiment(toy, run, "model.reordering=2"))
    assert not branches.evaluated(run, name, "last")
    evaluate_run(run, split="dev", checkpoint="last", agreement=False)
    assert branches.evaluated(run, name, "last")
    (run / "directions/en-de/tuning.note.json").touch()  # trained anew since
    assert not branches.evaluated(run, name, "last")
    (run / "directions/en-de/tuning.note.json").unlink()
    assert not branches.trained(run, wanted)


@pytest.mark.parametrize("source", [None, "de"])
def test_a_direction_without_data_is_refused_with_the_way_round(trained, source):
    with pytest.raises(AccordError, match=r"--via auto|--from"):
        Translator(trained).translate(["null"], "fr", source=source)


def test_what_needs_a_network_is_refused(trained):
    translator = Translator(trained)
    assert translator.needs_source
    assert not translator.has_likelihood
    with pytest.raises(AccordError, match="how likely"):
        translator.cross_entropy(["null"], ["zero"], "en", source="de")
    with pytest.raises(AccordError, match="ensemble"):
        translator.translate(["null"], "en", source="de", ensemble="direct,via:fr")
    for choice in ({"checkpoint": "average"}, {"device": "cuda"}, {"precision": "bf16"}):
        with pytest.raises(AccordError, match="no choice of"):
            Translator(trained, **choice)


def test_the_trainer_of_networks_names_the_other(toy, tmp_path):
    with pytest.raises(AccordError, match=r"accord\.training\.phrase_based"):
        train(experiment(toy, tmp_path))


@pytest.mark.parametrize(
    "command",
    [
        ["average"],
        ["export"],
        ["distil-data", "--from", "de", "--to", "en", "--text", "x.{lang}", "--out", "out"],
    ],
)
def test_commands_on_checkpoints_refuse_it_with_a_remedy(trained, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.de").write_text("null\n", encoding="utf-8")
    name, *options = command
    result = CliRunner().invoke(app, [name, str(trained), *options])
    assert isinstance(result.exception, AccordError)
    assert "phrase-based" in result.exception.what
    assert result.exception.fix


def killed_at(step: int, task: Task) -> int:
    """The exit code of a process that trains a direction, and dies at that step of it."""

    def work() -> None:
        def report(done: int) -> None:
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)

        train_direction(task, report)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    return process.exitcode or 0


def test_killed_at_every_step_it_comes_to_the_same_files(toy, trained, tmp_path):
    settings = experiment(toy, tmp_path)
    direction = Direction("de", "en")
    store = Path(settings.store)
    task = Task(store, tmp_path, direction, settings.model, settings.training_seed)
    assert [killed_at(step, task) for step in range(1, task.steps)] == [-9] * (task.steps - 1)
    reached = []
    train_direction(task, reached.append)
    assert reached[-1] == task.steps
    assert len(reached) <= 1 + len(STAGES) + MODEL["tuning"]["evaluations"]  # the rest was done
    assert files(task.directory) == files(trained / "directions/de-en")


class Killer(Silent):
    """Sends its own process a signal when work has come so far."""

    def __init__(self, number: int, at: int) -> None:
        self.number, self.at = number, at

    def reach(self, done, detail="", line=None):
        if self.at is not None and done >= self.at:
            self.at = None
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_the_same_command_goes_on(toy, trained, tmp_path, number):
    settings = experiment(toy, tmp_path)
    stopped = train_phrase_based(settings, progress=Killer(number, 20))
    assert (stopped.finished, stopped.signal) == (False, number)
    before = (tmp_path / "directions/en-de/alignment.note.json").stat().st_mtime_ns
    assert not (tmp_path / "directions/fr-en").exists()
    assert train_phrase_based(settings).finished
    assert (tmp_path / "directions/en-de/alignment.note.json").stat().st_mtime_ns == before
    for name in ("en-de", "fr-en"):
        assert files(tmp_path / "directions" / name) == files(trained / "directions" / name)


def test_several_processes_make_the_same_files(toy, trained, tmp_path):
    train_phrase_based(experiment(toy, tmp_path, "training.threads=2"))
    for path in sorted((trained / "directions").iterdir()):
        assert files(tmp_path / "directions" / path.name) == files(path)


def test_a_change_is_refused_unless_accepted_and_then_only_what_hangs_on_it_is_redone(
    toy, trained, tmp_path
):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    train_phrase_based(experiment(toy, tmp_path), accept_changes=True)  # `run` is another path
    changed = experiment(toy, tmp_path, "model.reordering=2")
    with pytest.raises(AccordError, match="another experiment"):
        train_phrase_based(changed)
    notes = {
        name: (tmp_path / f"directions/de-en/{name}.note.json").stat().st_mtime_ns
        for name in STAGES
    }
    train_phrase_based(changed, accept_changes=True)
    redone = [
        name
        for name in STAGES
        if (tmp_path / f"directions/de-en/{name}.note.json").stat().st_mtime_ns != notes[name]
    ]
    assert redone == ["tuning"]


def test_an_altered_file_is_refused_and_training_makes_it_anew(toy, trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    table = tmp_path / "directions/de-en/tm.ttable"
    table.write_bytes(table.read_bytes() + b"x ||| y ||| 1 1\n")
    with pytest.raises(AccordError, match="altered") as caught:
        open_decoder(table.parent, load(toy).model)
    assert "tm.ttable" in str(caught.value)
    train_phrase_based(experiment(toy, tmp_path), accept_changes=True)  # `run` is another path
    assert files(table.parent) == files(trained / "directions/de-en")


def test_an_unfinished_direction_is_named(trained, toy, tmp_path):
    with pytest.raises(AccordError, match="accord train"):
        open_decoder(tmp_path, load(toy).model)


def test_pairs_that_are_too_long_are_left_out_and_told(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("accord.phrases.train.MOST_WORDS", 3)
    settings = experiment(toy, tmp_path)
    task = Task(Path(settings.store), tmp_path, Direction("de", "en"), settings.model, 1)
    numbers = [17 * i for i in range(LINES)]
    long = sum(value > 999 for value in numbers)
    assert train_direction(task, lambda done: None).left_out == long
    monkeypatch.setattr("accord.phrases.train.MOST_WORDS", 0)
    task = replace(task, run=tmp_path / "none")
    with pytest.raises(AccordError, match="no training pair of de-en"):
        train_direction(task, lambda done: None)


def test_tuning_needs_dev_sentences_of_the_direction(toy, tmp_path, monkeypatch):
    settings = experiment(toy, tmp_path)
    monkeypatch.setattr(HeldOutSets, "pair", lambda self, split, source, target: ([], []))
    task = Task(Path(settings.store), tmp_path, Direction("de", "en"), settings.model, 1)
    with pytest.raises(AccordError, match="no dev sentences of de-en") as caught:
        train_direction(task, lambda done: None)
    assert "model.tuning.evaluations" in str(caught.value.fix)
