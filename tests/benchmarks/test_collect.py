"""benchmarks/collect.py: what a study leaves in the repository."""

import json
from itertools import pairwise

import pytest
import yaml

from accord.evaluation.records import Evaluation
from made_runs import make_run
from scripts import script

collect = script("collect")


@pytest.fixture
def runs(tmp_path):
    """Two evaluated runs; the first knows machine paths."""
    made = [
        make_run(tmp_path / "runs" / name, lost=lost) for name, lost in (("a", 0.1), ("b", 0.6))
    ]
    for run in made:
        file = run / "experiment.yaml"
        settings = yaml.safe_load(file.read_text("utf-8"))
        settings["store"] = "/home/someone/big/stores/x"
        settings["corpora"][0]["train"][0]["path"] = "/mnt/disk/texts/m30/train.{lang}"
        settings["run"] = f"runs/{run.name}"
        file.write_text(yaml.safe_dump(settings), "utf-8")
        (run / "environment.json").write_text(
            json.dumps(
                {
                    "commit": "abc1234",
                    "device": "A GPU",
                    "torch": "2.11",
                    "command": [
                        "/home/someone/bin/accord",
                        "train",
                        "--set",
                        "store=/home/someone/s",
                    ],
                }
            )
        )
    (made[0] / "report.html").write_text(
        "<pre>store: /home/someone/big/stores/x\nrun: /srv/other/runs/c</pre><a href='https://x.org/a/b/c'>",
        "utf-8",
    )
    return made


def main(*arguments):
    collect.main([str(argument) for argument in arguments])


def all_text(directory):
    return "".join(p.read_text("utf-8") for p in directory.rglob("*") if p.is_file())


def test_a_study_is_small_and_whole(runs, tmp_path):
    main(*runs, "--to", tmp_path / "study", "--command", "accord reproduce europarl")
    found = sorted(
        str(p.relative_to(tmp_path / "study")) for p in (tmp_path / "study").rglob("*.*")
    )
    assert found == [
        "README.md",
        "a/experiment.yaml",
        "a/metrics.jsonl",
        "a/report.html",
        "a/test-beam4.json",
        "b/experiment.yaml",
        "b/metrics.jsonl",
        "b/test-beam4.json",
    ]
    evaluation = Evaluation.load(tmp_path / "study/a/test-beam4.json")
    readme = (tmp_path / "study/README.md").read_text("utf-8")
    means = [evaluation.averages[g] for g in ("supervised", "zero_shot", "zero_shot_via_pivot")]
    cells = " | ".join(f"{mean.bleu:.2f} ±{mean.bleu_confidence:.2f}" for mean in means)
    assert f"| a | 400 | {cells} |" in readme
    for part in ("accord reproduce europarl", "commit: abc1234", "A GPU", "date: 20"):
        assert part in readme


def test_no_machine_path_is_left(runs, tmp_path):
    main(*runs, "--to", tmp_path / "study")
    text = all_text(tmp_path / "study")
    for part in ("/home", "someone", "/mnt", "/srv", str(tmp_path)):
        assert part not in text
    settings = yaml.safe_load((tmp_path / "study/a/experiment.yaml").read_text("utf-8"))
    assert settings["store"] == "stores/x"
    assert settings["corpora"][0]["train"][0]["path"] == "m30/train.{lang}"
    assert settings["run"] == "runs/a"
    assert "https://x.org/a/b/c" in text
    assert "accord train --set store=s\n" in text  # the command that the runs remember
    assert collect.shortened("~/m30/a.gz") == collect.shortened("../../m30/a.gz") == "m30/a.gz"


def test_tests_against_other_runs_come_along_and_large_reports_do_not(runs, tmp_path):
    folder = runs[0] / "evaluation/test-beam4"
    (folder / "against-b.json").write_text('{"p": 0.01}')
    (runs[0] / "report.html").write_text("x" * 400_000)
    main(*runs, "--to", tmp_path / "study")
    assert (tmp_path / "study/a/test-beam4.against-b.json").read_text() == '{"p": 0.01}'
    assert not (tmp_path / "study/a/report.html").exists()


def test_runs_may_not_know_all_about_themselves(runs, tmp_path):
    (runs[1] / "metrics.jsonl").unlink()
    for run in runs:
        (run / "environment.json").unlink()
    main(*runs, "--to", tmp_path / "study", "--commit", "def5678")
    readme = (tmp_path / "study/README.md").read_text("utf-8")
    assert "commit: def5678" in readme
    assert "hardware, evaluation: cpu, fp32" in readme
    assert (tmp_path / "study/a/metrics.jsonl").exists()
    assert not (tmp_path / "study/b/metrics.jsonl").exists()


def test_what_people_wrote_in_the_readme_stays(runs, tmp_path):
    main(*runs, "--to", tmp_path / "study")
    page = tmp_path / "study/README.md"
    page.write_text(page.read_text("utf-8").replace("to be written", "agreement helps"), "utf-8")
    before = page.read_text("utf-8")
    main(*runs, "--to", tmp_path / "study")
    assert page.read_text("utf-8") == before
    main(runs[0], "--to", tmp_path / "study", "--command", "make it")
    after = page.read_text("utf-8")
    assert "agreement helps" in after
    assert "make it" in after
    assert "| b |" not in after
    page.write_text("mine alone", "utf-8")
    with pytest.raises(SystemExit, match="no place"):
        main(*runs, "--to", tmp_path / "study")
    assert page.read_text("utf-8") == "mine alone"


def log(training, validations):
    lines = [{"kind": "train", "step": n} for n in range(training)]
    lines += [{"kind": "validation", "step": n * 10} for n in range(validations)]
    return [json.dumps(line) for line in sorted(lines, key=lambda line: line["step"])]


@pytest.mark.parametrize(("training", "validations"), [(5000, 50), (5000, 500), (50, 3), (0, 9)])
def test_logs_are_thinned_evenly(training, validations):
    lines = log(training, validations)
    kept = collect.thinned([*lines, '{"kind": "tra'])
    assert len(kept) == min(len(lines), 200)
    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    assert kept == [line for line in lines if line in set(kept)]
    if validations <= 100:
        assert sum("validation" in line for line in kept) == validations
    steps = [json.loads(line)["step"] for line in kept if "train" in line]
    gaps = {b - a for a, b in pairwise(steps)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_mistakes_are_told(runs, tmp_path):
    with pytest.raises(SystemExit, match=r"experiment\.yaml"):
        main(tmp_path, "--to", tmp_path / "study")
    with pytest.raises(SystemExit, match="two runs are called a"):
        main(runs[0], runs[0], "--to", tmp_path / "study")
    assert not (tmp_path / "study").exists()
