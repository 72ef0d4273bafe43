"""benchmarks/small_data.py and paper_table.py: what runs of a plan say about the paper."""

import pytest

from made_runs import make_run
from scripts import script

small_data, paper_table = map(script, ("small_data", "paper_table"))

EUROPARL = ("en", "de", "es", "fr")


def runs(directory, sizes, *, lost=None, **options):
    for size in sizes:
        for name, share in (lost or {"basic": 0.8, "agree": 0.3}).items():
            make_run(directory / f"{name}-{size}", lost=share, **options)


def cells(page, label):
    line = next(x for x in page.splitlines() if x.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_size_has_its_points(tmp_path):
    runs(tmp_path / "in", (500, 1000))
    runs(tmp_path / "in", (8000,), lost={"basic": 0.7, "agree": 0.2, "complete": 0.1})
    (tmp_path / "in/basic-long").mkdir()  # another study's
    small_data.main([str(tmp_path / "in"), "--to", str(tmp_path / "out")])
    page = (tmp_path / "out/small-data.md").read_text("utf-8")
    outcome = small_data.outcome_of(tmp_path / "in", "8000", "test-beam4")
    for system in ("Basic", "Pivot", "Agree", "Complete"):
        mean = outcome.average(system.lower(), "zero_shot")
        assert cells(page, f"8,000, {system}")[2] == f"{mean.bleu:.2f}"
    gain = outcome.tests["complete", "basic"].averages["zero_shot"].bleu
    assert cells(page, "8,000, Complete")[3] == f"{gain.difference:+.2f}"
    assert [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| 1,000")] == [
        "| 1,000",
        "| 1,000, Basic",
        "| 1,000, Pivot",
        "| 1,000, Agree",
    ]
    assert "at every size: **holds**" in page
    svg = (tmp_path / "out/small-data.svg").read_text("utf-8")
    assert "<!-- Complete -->" in svg
    assert "<!-- 0.5 -->" in svg  # a tick at every size
    assert (tmp_path / "out/small-data.png").read_bytes().startswith(b"\x89PNG")


def test_one_evaluation_is_shown(tmp_path):
    runs(tmp_path / "in", (500, 1000), name="test-beam4")
    runs(tmp_path / "in", (500,), name="test-beam10")
    small_data.main([str(tmp_path / "in"), "--to", str(tmp_path / "out")])
    assert "test-beam4" in (tmp_path / "out/small-data.md").read_text("utf-8")
    runs(tmp_path / "in", (1000,), name="test-beam10")
    with pytest.raises(SystemExit, match="several evaluations: test-beam10, test-beam4"):
        small_data.main([str(tmp_path / "in"), "--to", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="no evaluation is of Basic and Agree for all of no run"):
        small_data.main([str(tmp_path), "--to", str(tmp_path / "out")])


def test_the_paper_stands_beside_every_evaluation(tmp_path, capsys):
    for name in ("test-beam10-last", "test-beam4-last"):
        runs(tmp_path, (200_000,), name=name, languages=EUROPARL)
    paper_table.main([str(tmp_path), "200000"])
    page = capsys.readouterr().out
    first, second = page.split("## test-beam")[1:]
    assert (first[:2], second[:1]) == ("10", "4")
    outcome = paper_table.outcome_of(tmp_path, "200000", "test-beam4-last")
    score = outcome.row("agree", "de-fr").bleu
    row = cells(second, "de-fr")
    assert row[7:9] == ["24.45", f"{score.score:.2f} ±{score.confidence_var:.2f}"]
    assert "basic 400, agree 400 updates" in second
    assert second.count("**holds**") + second.count("**does not hold**") == 3
    paper_table.main([str(tmp_path), "200000", "--to", str(tmp_path / "page.md")])
    assert (tmp_path / "page.md").read_text("utf-8") == page.removesuffix("\n")


def test_another_branch_may_stand_for_agree(tmp_path, capsys):
    lost = {"basic": 0.8, "agree": 0.5, "agree-hard": 0.1}
    runs(tmp_path, (200_000,), lost=lost, languages=EUROPARL)
    paper_table.main([str(tmp_path), "200000", "--agree", "agree-hard"])
    hard = paper_table.outcome_of(tmp_path, "200000", "test-beam4", "agree-hard")
    score = hard.row("agree", "de-fr").bleu
    row = cells(capsys.readouterr().out, "de-fr")
    assert row[8] == f"{score.score:.2f} ±{score.confidence_var:.2f}"
    plain = paper_table.outcome_of(tmp_path, "200000", "test-beam4")
    assert plain.row("agree", "de-fr").bleu.score < score.score
    with pytest.raises(SystemExit, match=r"agree-soft-…, evaluated alike"):
        paper_table.main([str(tmp_path), "200000", "--agree", "agree-soft"])
