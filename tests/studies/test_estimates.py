"""What the checkpoints of a study need on disk: said before anything is trained."""

from collections import namedtuple
from pathlib import Path

import pytest

from accord.studies import estimates
from accord.studies.plan import plan_study
from made_runs import experiment
from made_studies import PLAN, follower

WEIGHTS = estimates.parameters(experiment())
Usage = namedtuple("Usage", "free")


@pytest.fixture
def made(tmp_path, monkeypatch):
    return follower(tmp_path, monkeypatch)


@pytest.fixture
def free(monkeypatch):
    """Say how many bytes the disk has left."""

    def let(left):
        monkeypatch.setattr(estimates.shutil, "disk_usage", lambda place: Usage(left))

    return let


def planned(**changes):
    return plan_study(Path("plan.yaml"), Path("out"), changes={"seeds": (1, 2), **changes})


def test_a_study_that_fills_the_disk_is_told_before_it_begins(made, free):
    free(5e9)  # six runs of four checkpoints need 5.3 GB
    for options in ((), ("-q",)):
        said = made("--seeds", "1,2", *options).said
        told = said.partition("accord: note: checkpoints of 6 runs still to be trained take")[2]
        assert told.startswith(" about 5.3 GB; 5.0 GB are free for out\n  fix: set `training.keep:")
        assert "choose another place: --out" in told
    free(5.5e9)
    assert "checkpoints" not in made("--seeds", "1,2").said


def test_what_is_needed_follows_from_optimiser_and_checkpoints(made):
    made("--dry-run")
    study = planned()
    one = 4 * WEIGHTS
    assert estimates.space(study, study.runs).needed == pytest.approx(6 * 4 * one, rel=1e-6)
    adam = {"training.steps": 20, "training.optimizer": "adam", "training.keep": 1}
    made("--dry-run", branches={"Basic": adam})
    study = planned()
    found = estimates.space(study, study.branches)
    assert found.needed == pytest.approx(2 * 2 * 3 * one, rel=1e-6)
    assert "training.keep" not in found.fix  # there is nothing to save
    made("--dry-run", average=2)
    study = planned()
    found = estimates.space(study, study.runs)
    assert found.needed == pytest.approx(6 * (4 + 1) * one, rel=1e-6)
    assert "`training.keep: 2`" in found.fix


def test_phrases_have_no_checkpoints(made):
    phrases = {"model": {"kind": "phrase-based"}, "training": {}, "training.init_from": None}
    made("--dry-run", branches={**PLAN["branches"], "Phrases": phrases})
    study = planned()
    found = estimates.space(study, [run for run in study.runs if run.branch == "Phrases"])
    assert (found.runs, found.needed) == (0, 0)
    assert found.sentence == "no checkpoints to come"


def test_what_is_trained_or_written_already_needs_no_more(made, free, monkeypatch, tmp_path):
    made("--dry-run")
    study = planned()
    step = tmp_path / "out/basic-1/checkpoints/step-00000010"
    step.mkdir(parents=True)
    (step / "model.safetensors").write_bytes(b"x" * 1000)
    all_of_it = estimates.space(study, study.runs).needed
    assert all_of_it == pytest.approx(6 * 16 * WEIGHTS - 1000, abs=1)
    free(2e9)
    monkeypatch.setattr(estimates, "is_trained", lambda run, journal: run.branch != "Basic")
    assert estimates.shortage(study, None) is None
    monkeypatch.setattr(estimates, "is_trained", lambda run, journal: run.branch == "Basic")
    assert estimates.shortage(study, None).runs == 4


def test_a_dry_run_ends_with_the_disk_and_builds_each_model_once(made, free):
    free(81e9)
    estimates._built.cache_clear()
    printed = made("--seeds", "1,2,3", "--dry-run").printed
    assert printed.splitlines()[-1] == (
        "Disk: checkpoints of 9 runs still to be trained take about 7.9 GB; "
        "81.0 GB are free for out."
    )
    assert estimates._built.cache_info().misses == 1
