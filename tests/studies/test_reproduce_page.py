"""The page and the figure, from run directories made on the spot."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from accord.errors import AccordError
from accord.evaluation.significance import compare
from accord.studies.beside_paper import beside_paper, explained, published
from accord.studies.branches import Options
from accord.studies.outcome import read_outcome
from accord.studies.page import page, verdicts, write_page
from accord.studies.paper import TABLES, find_setting
from accord.studies.reproduction import make_plan
from accord.studies.sizes_figure import draw_sizes
from made_runs import make_run

EUROPARL = ("en", "de", "es", "fr")
IWSLT = ("en", "de", "it", "nl", "ro")


def made(tmp_path, name, languages, *, agree=0.1, basic=0.6, sizes=(), complete=False):
    """The plan of a setting, with runs as if it had been followed."""
    setting = find_setting(name)
    chosen = Options(setting.split, complete=complete)
    plan = make_plan(setting, to=tmp_path / name, sizes=sizes, options=chosen)
    for study in plan.studies:
        lost = {"agree": agree, "basic": basic, "complete": agree / 2}
        for run in chosen.branches:
            make_run(study.run(run), languages=languages, lost=lost[run], name=chosen.evaluation)
    return plan, [read_outcome(study, chosen) for study in plan.studies]


def table(text, heading):
    """The rows of the first table after a heading, as lists of cells."""
    after = text.partition(f"## {heading}\n")[2]
    lines = after[after.index("\n|") + 1 :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.fixture(scope="module")
def europarl(tmp_path_factory):
    return made(tmp_path_factory.mktemp("page"), "europarl", EUROPARL)


def test_every_direction_stands_beside_the_paper_s(europarl):
    plan, outcomes = europarl
    text = page(plan, outcomes)
    rows = {row[0]: row[1:] for row in table(text, "The paper's table")}
    ours = outcomes[0].row("agree", "de-fr").bleu
    off = f"{ours.score - 24.45:+.2f}".replace("-", "−")
    assert rows["de-fr"][6:9] == [
        "24.45",
        f"{ours.score:.2f} ±{ours.confidence_var:.2f}",
        f"{off} ▲",
    ]
    assert rows["en-de"][0] == rows["en-de"][3] == "23.06"
    assert rows["en-de"][1] == rows["en-de"][4]  # Pivot is Basic where there is data
    mean = outcomes[0].average("pivot", "zero_shot")
    assert rows["zero-shot average (6)"][3:5] == [
        "26.28",
        f"{mean.bleu:.2f} ±{mean.bleu_confidence:.2f}",
    ]
    names = list(rows)
    assert names.index("en-es") < names.index("en-de") < names.index("supervised average (6)")


def test_a_difference_within_our_interval_is_not_marked(europarl, monkeypatch):
    plan, outcomes = europarl
    near = outcomes[0].row("agree", "de-fr").bleu.score
    rows = TABLES["europarl"].rows
    monkeypatch.setitem(rows, "de-fr", replace(rows["de-fr"], agree=near - 0.01))
    found = {row[0]: row[1:] for row in table(page(plan, outcomes), "The paper's table")}
    assert found["de-fr"][8] == "+0.01"


def test_verdicts_rest_on_paired_tests(europarl):
    plan, outcomes = europarl
    judged = {item.claim.number: item for item in verdicts(plan, outcomes)}
    assert [judged[n].verdict for n in (1, 3, 4, 5)] == [
        "holds",
        "holds",
        "not tested here",
        "not tested here",
    ]
    test = outcomes[0].tests["agree", "basic"].averages["zero_shot"].bleu
    assert test.difference > 0
    assert f"{test.ours:.2f} against {test.theirs:.2f}" in judged[1].because
    assert judged[2].paper == "Agree − Pivot −1.68"
    assert "**holds**" in page(plan, outcomes)
    worse = {i.claim.number: i.verdict for i in verdicts(plan, [exchanged(outcomes[0])])}
    assert worse[1] == "does not hold"


def test_without_zero_shot_figures_there_is_nothing_to_judge(tmp_path):
    with pytest.raises(AccordError, match="no mean over zero-shot directions") as error:
        made(tmp_path, "europarl", ("en", "de"))
    assert "test set" in error.value.fix


def exchanged(outcome):
    """The same with Agree and Basic exchanged."""
    turned = compare(outcome.systems["basic"], outcome.systems["agree"])
    return replace(outcome, tests={**outcome.tests, ("agree", "basic"): turned})


def test_the_page_tells_how_to_do_it_again_and_with_what(europarl):
    plan, outcomes = europarl
    text = page(plan, outcomes)
    for stage in plan.stages:
        assert stage.command in text
    for part in ("report.html", "beam 10", "checkpoint last", "weight 0.01 by sum", "tok:13a"):
        assert part in text
    assert "Small scale" not in text
    write_page(plan, outcomes)
    assert plan.page.read_text("utf-8") == text


def test_branches_of_different_length_are_called_unmatched(europarl):
    plan, outcomes = europarl
    report = outcomes[0].report
    first = report.runs[0]
    origin = replace(first.evaluation.origin, step=300)
    changed = replace(first.evaluated, evaluation=replace(first.evaluation, origin=origin))
    runs = (replace(first, evaluated=changed), *report.runs[1:])
    other = replace(outcomes[0], report=replace(report, runs=runs))
    assert "not matched in updates: agree 300, basic 400" in page(plan, [other])
    assert "not matched" not in page(plan, outcomes)


def test_complete_has_a_column_and_tests(tmp_path):
    plan, outcomes = made(tmp_path, "europarl", EUROPARL, complete=True)
    text = page(plan, outcomes)
    assert table(text, "The paper's table")[0][-3:] == [
        "Complete",
        "Soft, published",
        "Distill, published",
    ]
    assert "Complete − Agree" in table(text, "Tests")[0]
    head, _, *rows = table(text, "Tests")
    assert {len(row) for row in (head, *rows)} == {18}
    assert any("complete" in stage.command for stage in plan.stages)
    assert "every 3, teacher frozen, distillation and back-translation" in text


def test_without_complete_all_is_as_before(europarl):
    plan, outcomes = europarl
    text = page(plan, outcomes)
    assert "omplete" not in text
    head, _, *rows = table(text, "Tests")
    assert {len(row) for row in (head, *rows)} == {9}


def test_columns_of_other_papers_stand_beside_as_printed(tmp_path):
    plan, outcomes = made(tmp_path, "un2", ("en", "es", "fr", "ru"))
    text = page(plan, outcomes)
    head, _, *rows = table(text, "The paper's table")
    assert head[-4:] == [
        "difference",
        "PBSMT°, published",
        "NMT-0, published",
        "Dual-0°, published",
    ]
    by_name = {row[0]: row[-3:] for row in rows}
    assert by_name["es-ru"] == ["39.69", "9.36", "24.55"]
    assert by_name["zero-shot average (6)"] == ["45.23", "26.26‡", "29.88"]
    assert {len(row) for row in rows} == {len(head)}
    for part in ("in no ranking with ours", "Dual-0: had monolingual text", "‡ as printed"):
        assert part in text
    assert "19.32 (NMT-0, zero-shot), 38.23 (Dual-0, supervised)" in text


def test_on_other_text_nothing_published_stands_beside_ours(europarl):
    outcome = europarl[1][0]
    shown = beside_paper(outcome, TABLES["europarl"], same_data=False)
    assert shown.head == ("direction", "Basic", "Pivot", "Agree")
    assert "published" not in explained(TABLES["europarl"], same_data=False)
    with pytest.raises(AccordError, match="do not have the text of europarl") as error:
        published(outcome.report.runs, "europarl")
    assert "--paper" in error.value.fix


@pytest.mark.parametrize("change", [{"split": "dev"}, {"limit": 30}, {"lines": (1, 30)}])
def test_nor_beside_another_set_or_a_part_of_it(europarl, monkeypatch, change):
    monkeypatch.setattr("accord.studies.beside_paper.on_paper_data", lambda *_: True)
    first, *others = europarl[1][0].report.runs
    assert published([first, *others], "europarl")[0].name == "Soft"
    evaluation = replace(first.evaluation, **change)
    other = replace(first, evaluated=replace(first.evaluated, evaluation=evaluation))
    with pytest.raises(AccordError, match="not all of its test set"):
        published([other, *others], "europarl")


def test_iwslt17_star_has_both_averages(tmp_path):
    plan, outcomes = made(tmp_path, "iwslt17-star", IWSLT)
    text = page(plan, outcomes)
    rows = {row[0]: row[1:] for row in table(text, "The paper's table")}
    assert rows["zero-shot average (12)"][0] == rows["IWSLT 2017, 4 directions"][0] == "12.61"
    assert rows["de-nl"][0] == "–"
    assert "4 or 12" in text
    assert "\\*" in text.splitlines()[0]  # the star of the name is not Markdown's


def test_small_data_has_a_table_and_a_figure(tmp_path):
    sizes = (50_000, 150_000)
    plan, outcomes = made(tmp_path, "small-data", EUROPARL, sizes=sizes, complete=True)
    draw_sizes(list(zip(plan.sizes, outcomes, strict=True)), plan.figure)
    text = page(plan, outcomes)
    assert "](small-data.svg)" in text
    rows = table(text, "BLEU against size")
    assert [row[0] for row in rows[2:]] == ["50k", "150k"]
    judged = {item.claim.number: item for item in verdicts(plan, outcomes)}
    assert judged[4].verdict == "holds"
    assert re.search(r"50k: .*150k: ", judged[4].because)
    assert judged[1].verdict == "not tested here"
    assert {"Complete, zero-shot", "Complete − Pivot", "Complete, spread"} <= set(rows[0])
    assert {len(row) for row in rows[2:]} == {len(rows[0])}
    ElementTree.parse(plan.figure)
    assert plan.figure.name == "small-data.svg"
    assert "de – fr" in plan.figure.read_text("utf-8")


def test_the_figure_is_the_same_every_time(tmp_path):
    plan, outcomes = made(tmp_path, "small-data", EUROPARL, sizes=(50_000, 150_000))
    by_size = list(zip(plan.sizes, outcomes, strict=True))
    for name in "ab":
        draw_sizes(by_size, tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
