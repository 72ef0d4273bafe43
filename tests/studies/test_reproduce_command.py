"""`accord reproduce` in small: from archives to verdicts, interrupted and continued."""

import io
import json
import os
import shlex
import signal
import tarfile
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from accord.cli import app
from accord.errors import AccordError
from accord.evaluation.records import Evaluation
from accord.files import sealed
from accord.studies.branches import Options
from accord.studies.paper import find_setting
from accord.studies.reproduction import make_plan
from accord.training.update import Updater
from miniatures import ORIGINALS

STEPS, START = 6, 3
TINY = {
    "model.units": 16,
    "model.encoder_layers": 1,
    "model.decoder_layers": 2,
    "vocabulary.size": 360,
    "training.steps": STEPS,
    "objective.agreement.start": START,
    "training.batch_tokens": 256,
    "training.log_every": 1,
    "training.validation.sentences": 0,
    "training.threads": 1,
}
VERDICT = "1. Agree is better than Basic on zero-shot directions"
SETS = [f"{key}={value}" for key, value in TINY.items()]


def call(*arguments, code=0, sets=SETS):
    flags = [part for item in sets for part in ("--set", item)]
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments), *flags])
    assert result.exit_code == code, result.output
    return result


def unpacked(name, directory):
    """What is inside the archives: these themselves would have to be the published ones."""
    for file, content in ORIGINALS[name]().items():
        if file.endswith(".tgz"):
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extractall(directory, filter="data")
    return directory


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Without Complete: interrupted in the middle of Agree, looked at, continued to the end."""
    base = tmp_path_factory.mktemp("reproduce")
    places = ["--data", base / "data", "--out", base / "ep", "--files", base / "originals"]
    unpacked("europarl", base / "originals")
    with_complete = ["europarl", *places, "--beam", 1, "-q"]
    command = [*with_complete, "--no-complete"]
    update, seen = Updater.update, []

    def told_to_stop(self, *arguments, **keywords):
        seen.append(1)
        if len(seen) == STEPS + START - 1:  # burn-in, Basic, and all but one of Agree
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Updater, "update", told_to_stop)
        first = call(*command, code=1)
    between = call(*command, "--dry-run")
    return SimpleNamespace(
        base=base,
        directory=base / "ep",
        command=command,
        with_complete=with_complete,
        first=first,
        between=between,
        second=call(*command),
        page=(base / "ep" / "reproduction.md").read_text("utf-8"),
    )


def evaluation(done, run):
    return Evaluation.load(done.directory / run / "evaluation" / "test-beam1-last")


def plan_of(done, **options):
    return make_plan(
        find_setting("europarl"),
        data=done.base / "data",
        to=done.directory,
        overrides=SETS,
        options=Options(**{"beam": 1, "complete": False, **options}),
    )


def test_what_was_interrupted_goes_on(done):
    assert f"ep/agree: told to stop, step {STEPS - 1} saved" in done.first.stderr
    assert VERDICT not in done.first.stdout
    lines = [line for line in done.between.stdout.splitlines() if line[:1].isdigit()]
    assert [line.endswith("[done]") for line in lines] == [True] * 5 + [False] * 4
    assert done.second.stderr.count("done already") == 5
    assert f"ep/agree: {STEPS} steps done" in done.second.stderr


def test_both_branches_have_as_many_updates_from_one_checkpoint(done):
    steps = {run: evaluation(done, run).origin.step for run in ("basic", "agree")}
    assert steps == {"basic": STEPS, "agree": STEPS}
    for run in ("basic", "agree"):
        lines = (done.directory / run / "metrics.jsonl").read_text("utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        trained = [entry for entry in entries if entry["kind"] == "train"]
        assert [entry["step"] for entry in trained] == list(range(START + 1, STEPS + 1))
        assert all(("agreement_loss" in entry) == (run == "agree") for entry in trained)
        settings = yaml.safe_load((done.directory / run / "experiment.yaml").read_text("utf-8"))
        assert settings["training"]["init_from"] == str(done.directory / "burn-in")


def test_all_is_evaluated_tested_and_reported(done):
    basic, agree = evaluation(done, "basic"), evaluation(done, "agree")
    assert len(basic.directions) == len(agree.directions) == 12
    assert len(basic.via_pivot) == 6
    folder = done.directory / "agree/evaluation/test-beam1-last"
    assert json.loads((folder / "against-basic.json").read_text())["theirs"]["step"] == STEPS
    assert (done.directory / "report.html").stat().st_size > 10_000
    table = (done.directory / "report.tex").read_text("utf-8")
    assert "Distill, published & Basic, published" in table
    assert "33.86" in table
    mean = basic.averages["supervised"]
    shown = f"| supervised average (6) | 31.52 | {mean.bleu:.2f} ±{mean.bleu_confidence:.2f} |"
    assert shown in done.page
    assert f"{VERDICT}: not tested here\n" in done.second.stdout


def test_the_commands_shown_do_the_same(done):
    """The experiment file is what `accord config` prints; training finds nothing left to do."""
    shown = [line for line in done.page.splitlines() if line.startswith(("accord ", "mkdir "))]
    assert len(shown) == 9
    for line in shown:
        words = shlex.split(line.partition(" > ")[0].removeprefix("mkdir -p ").rpartition("&& ")[2])
        assert words[0] == "accord"
        if words[1] == "config":
            printed = CliRunner().invoke(app, words[1:]).stdout
            assert printed == (done.directory / "experiment.yaml").read_text("utf-8")
        if words[1] == "train":
            again = CliRunner().invoke(app, [*words[1:], "-q"])
            assert again.exit_code == 0, again.output
            assert "steps done" in again.stderr


def test_when_all_is_done_nothing_is_done_again(done, monkeypatch):
    def never(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr(Updater, "update", never)
    before = evaluation(done, "agree").date
    again = call(*done.command)
    assert again.stderr.count("done already") == 8
    assert evaluation(done, "agree").date == before
    verdicts = again.stdout.partition(VERDICT)[2]
    assert verdicts
    assert verdicts == done.second.stdout.partition(VERDICT)[2]


def test_other_settings_are_refused_where_models_are(done):
    refused = call(*done.command, code=1, sets=[*SETS, "model.units=32"])
    assert isinstance(refused.exception, AccordError)
    assert "model.units: 16, now 32" in str(refused.exception)
    assert "--out" in refused.exception.fix


def test_another_search_needs_another_evaluation_only(done):
    finished = {stage.kind: stage.done() for stage in plan_of(done, beam=3).stages}
    assert finished["train"]
    assert not finished["evaluate"]


def test_another_basic_makes_old_tests_stale(done):
    """Basic evaluated anew: what Agree was compared with is gone."""
    file = done.directory / "basic/evaluation/test-beam1-last/evaluation.json"
    before = file.read_text("utf-8")
    try:
        anew = json.loads(before.replace('"date": "2', '"date": "3'))
        file.write_text(json.dumps(sealed(anew)), "utf-8")
        stages = [stage for stage in plan_of(done).stages if stage.kind == "evaluate"]
        assert [stage.done() for stage in stages] == [True, False]
    finally:
        file.write_text(before, "utf-8")


def test_a_model_trained_anew_makes_its_old_figures_stale(done):
    """With the same number of steps: the checkpoints were deleted, the evaluation was not."""
    state = done.directory / f"agree/checkpoints/step-{STEPS:08d}/state.json"
    before = state.stat()
    try:
        os.utime(state)
        stages = [stage for stage in plan_of(done).stages if stage.kind == "evaluate"]
        assert [stage.done() for stage in stages] == [True, False]
    finally:
        os.utime(state, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_is_not_needed_any_more_may_be_deleted(done):
    """Text, store and burn-in are not made again for branches that are trained."""
    names = [done.base / "data", done.directory / "store", done.directory / "burn-in"]
    try:
        for path in names:
            path.rename(path.with_name(f"{path.name}.away"))
        assert [stage.done() for stage in plan_of(done).stages] == [True] * 8 + [False]
    finally:
        for path in names:
            path.with_name(f"{path.name}.away").rename(path)


def test_complete_is_not_begun_from_another_burn_in(done):
    """An old reproduction whose burn-in is gone: a new one would be another model."""
    burn_in = done.directory / "burn-in"
    try:
        burn_in.rename(burn_in.with_name("away"))
        refused = call(*done.with_complete, code=1)
        assert "complete has no checkpoint to begin from" in str(refused.exception)
        assert "--no-complete" in refused.exception.fix
        assert call(*done.command).stderr.count("done already") == 8
    finally:
        burn_in.with_name("away").rename(burn_in)


def test_a_reproduction_begun_without_complete_gets_it_from_the_same_checkpoint(done):
    """Also with settings of its own, which cannot matter to the others; then they are fixed."""
    sets = [*SETS, "objective.complete.weight=0"]  # so untrained a teacher has nothing to say
    later = call(*done.with_complete, sets=sets)
    assert later.stderr.count("done already") == 7  # all but the file, Complete and its evaluation
    assert f"ep/complete: {STEPS} steps done" in later.stderr
    complete, basic = evaluation(done, "complete"), evaluation(done, "basic")
    assert complete.origin.step == STEPS
    assert complete.averages["supervised"] == basic.averages["supervised"]  # as the weight is 0
    page = (done.directory / "reproduction.md").read_text("utf-8")
    assert "| Complete | Soft, published | Distill, published |" in page
    assert "Complete − Pivot" in page
    refused = call(*done.with_complete, code=1)
    assert "trained here with other settings:\n  objective.complete" in str(refused.exception)


def test_an_unknown_setting_gets_the_nearest_name():
    refused = call("iwslt-17star", code=1, sets=[])
    assert "did you mean 'iwslt17-star'?" in str(refused.exception)
    assert "settings: europarl, un1" in str(refused.exception)


def test_missing_data_is_fetch_s_error(tmp_path):
    (tmp_path / "none").mkdir()
    where = ["--data", tmp_path / "data", "--out", tmp_path / "to", "--files", tmp_path / "none"]
    refused = call("europarl", *where, code=1)
    assert "nothing here gives europarl-v7.de-en.de" in str(refused.exception)
    assert "training-parallel-europarl-v7.tgz" in refused.exception.fix
    asked = call("iwslt17", *where, code=1)
    assert "these terms must be accepted first" in str(asked.exception)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["europarl", "--sizes", "100"], "only small-data has sizes"),
        (["small-data", "--sizes", "100,x"], "whole numbers"),
        (["small-data", "--sizes", "0"], "whole numbers"),
        (["europarl", "--scale", "tiny"], "neither full nor small"),
        (["europarl", "--checkpoint", "average"], "neither best nor last"),
        (["europarl", "--beam", "0"], "--beam"),
    ],
)
def test_wrong_usage(options, part):
    assert part in call(*options, code=2, sets=[]).output


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("run=elsewhere", "decided by the reproduction"),
        ("training.init_from=elsewhere", "decided by the reproduction"),
        ("training.minutes=90", "matched in updates"),
        ("training.branch_minutes=90", "matched in updates"),
        ("objective.agreement=null", "needs a burn-in"),
        ("objective.agreement.start=0", "needs a burn-in"),
        ("objective.agreement.start=500000", "needs a burn-in"),
        ("model.unit=3", "did you mean 'units'"),
    ],
)
def test_changes_that_cannot_be(override, part):
    assert part in str(call("europarl", "--dry-run", code=1, sets=[override]).exception)
