"""The table of the paper: averages, the best in bold, marks of significance; and its LaTeX."""

import re
from dataclasses import replace

import pytest

from accord.inference.ensemble import Ensemble
from accord.report.contents import build
from accord.report.html import html
from accord.report.latex import escape, latex
from accord.report.markdown import markdown
from accord.report.paper_table import Published, table
from made_runs import make_run


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A bad run, and a better one to compare it with; names that LaTeX would choke on."""
    base = tmp_path_factory.mktemp("two")
    bad = make_run(base / "50%_&bad{", lost=0.9)
    good = make_run(base / "good", lost=0.05)
    return build([bad, good])


def row(made, label):
    return next(row for row in made.rows if row.label == label)


def test_columns_are_runs_and_their_pivots(two):
    labels = [system.label for system in table(two.systems, "bleu").systems]
    assert labels == ["50%_&bad{", "50%_&bad{, pivot", "good", "good, pivot"]


def test_rows_and_averages_are_the_evaluations(two):
    made = table(two.systems, "bleu")
    assert [r.label for r in made.rows] == [
        "en-de", "en-fr", "de-en", "fr-en", "supervised average",
        "de-fr", "fr-de", "zero-shot average",
    ]  # fmt: skip
    for run, column in zip(two.runs, (0, 2), strict=True):
        averages = run.evaluation.averages
        cells = row(made, "supervised average").cells
        assert cells[column].value == pytest.approx(averages["supervised"].bleu)
        assert cells[column + 1].value == cells[column].value
        cells = row(made, "zero-shot average").cells
        assert cells[column].value == pytest.approx(averages["zero_shot"].bleu)
        assert cells[column + 1].value == pytest.approx(averages["zero_shot_via_pivot"].bleu)


def test_the_best_of_a_row_is_bold_and_ties_are_shared(two):
    for each in table(two.systems, "chrf").rows:
        best = max(round(cell.value, 1) for cell in each.cells)
        assert [cell.best for cell in each.cells] == [
            round(cell.value, 1) == best for cell in each.cells
        ]


def test_nothing_is_bold_where_all_are_the_same(tmp_path):
    report = build([make_run(tmp_path / "run")])
    cells = row(table(report.systems, "bleu"), "en-de").cells
    assert [cell.best for cell in cells] == [False, False]
    assert [cell.repeated for cell in cells] == [False, True]


def test_marks_are_of_the_interval_against_the_first_column(two):
    made = table(two.systems, "bleu")
    assert not any(each.cells[0].mark for each in made.rows)
    assert row(made, "zero-shot average").cells[2].mark == "†"
    for each in made.rows:
        tested = {t.name: t.bleu for t in two.systems[2].against_main.directions}
        if each.label in tested:
            test = tested[each.label]
            assert each.cells[2].mark == ("†" if test.low > 0 or test.high < 0 else "")
    assert "the 95 % interval of the difference" in markdown(two)


def test_identical_runs_get_no_marks(tmp_path):
    report = build([make_run(tmp_path / name, pivot=False) for name in ("one", "other")])
    made = table(report.systems, "bleu")
    assert not made.marked
    assert "bootstrap" not in markdown(report)
    assert "dagger" not in latex(report)


def test_averages_are_over_directions_that_all_columns_have(tmp_path):
    wide = make_run(tmp_path / "wide", languages=("en", "de", "fr", "es"))
    narrow = make_run(tmp_path / "narrow")
    report = build([wide, narrow])
    made = table(report.systems, "bleu")
    assert row(made, "es-fr").cells[-1].value is None
    average = row(made, "zero-shot average of 2 of 6")
    rows = report.main.evaluation.directions
    pair = [r.bleu.score for r in rows if r.direction in ("de-fr", "fr-de")]
    assert average.cells[0].value == pytest.approx(sum(pair) / 2)
    assert average.cells[1].mark == "†"  # pivoting, tested over the same two
    assert "& --" in latex(report)


def test_iwslt_has_the_averages_of_its_campaign(tmp_path):
    report = build([make_run(tmp_path / "run", languages=("en", "de", "it", "nl", "ro"))])
    made = table(report.systems, "bleu")
    expected = report.main.evaluation.averages["iwslt_4"].bleu
    found = row(made, "IWSLT 2017, 4 directions")
    assert found.cells[0].value == pytest.approx(expected)
    # All twelve are the zero-shot directions here, and have their average already.
    assert not any("12 directions" in each.label for each in made.rows)


def test_latex_is_well_formed(two):
    text = latex(two)
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    plain = re.sub(r"\\[\\{}%&_$#]", "", body)
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert "%" not in plain
    assert "_" not in plain
    assert r"50\%\_\&bad\{, pivot" in body
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", body) for word in ("begin", "end"))
    assert begun == ended[::-1] == ["table", "tabular"]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {4}
    assert r"\begin{tabular}{lrrrr}" in body
    assert r"\textbf{" in body
    assert r"$^{\dagger}$" in body
    assert r"the 95 \% interval of the difference" in body


PUBLISHED = (
    Published("Old", "A 2018", {"en-de": 61.26, "zero-shot": 51.1}, apart="more text"),
    Published("New", "B 2019", {"de-fr": 9.3, "zero-shot": 26.26}, slips={"zero-shot": 19.32}),
)


def test_published_columns_stand_beside_and_are_never_the_best(two):
    plain = table(two.systems, "bleu")
    made = table(two.systems, "bleu", PUBLISHED)
    assert [each.cells for each in made.rows] == [each.cells for each in plain.rows]
    assert row(made, "en-de").published == ("61.26", "–")
    assert row(made, "de-fr").published == ("–", "9.30")
    assert row(made, "zero-shot average").published == ("51.10", "26.26‡")
    assert row(made, "supervised average").published == ("–", "–")
    assert table(two.systems, "chrf", PUBLISHED).published == ()
    assert all(each.published == () for each in plain.rows)


def test_published_columns_in_markdown_and_html(two):
    beside = replace(two, published=PUBLISHED)
    text, page = markdown(beside), html(beside)
    assert text.count("| Old°, published | New, published |") == 1  # of BLEU alone
    assert re.search(r"^\| \*zero-shot average\* \|.*\| 51.10 \| 26.26‡ \|$", text, re.M)
    explained = (
        "in no ranking with ours. Old: A 2018; New: B 2019. ° in grey, other data or another test "
        "set. Old: more text. ‡ as printed; the mean of its rows is 19.32 (New, zero-shot)."
    )
    assert explained in text
    assert explained in page
    assert '<td class="published repeated">61.26</td><td class="published">–</td>' in page
    assert '<th scope="col" class="published">Old°, published</th>' in page
    assert "published" not in markdown(two)
    assert 'class="published' not in html(two)


def test_published_columns_in_latex(two):
    text = latex(replace(two, published=PUBLISHED))
    assert r"\begin{tabular}{lrrrr|rr}" in text
    assert r"% \usepackage{booktabs,xcolor}" in text
    assert r"& Old$^{\circ}$, published & New, published \\" in text
    assert r"& \textcolor{gray}{51.10} & 26.26$^{\ddagger}$ \\" in text
    assert r"\cmidrule(lr){1-7}" in text
    assert "xcolor" not in latex(two)


def test_latex_escapes_all_that_is_special():
    assert escape("a\\b~c^d") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"
    assert escape("1\n2 <3|") == r"1 2 $<$3\textbar{}"


def test_an_ensemble_has_a_column_of_its_own(tmp_path):
    ensemble = Ensemble.parse("direct,via:en")
    mixed = make_run(tmp_path / "mixed", ensemble=ensemble)
    report = build([mixed, make_run(tmp_path / "plain", lost=0.2)])
    made = table(report.systems, "bleu")
    assert [system.label for system in made.systems] == [
        *("mixed", "mixed, pivot", "mixed, ensemble"),
        *("plain", "plain, pivot"),
    ]
    averages = report.main.evaluation.averages
    cells = row(made, "zero-shot average").cells
    assert cells[2].value == pytest.approx(averages["zero_shot_by_ensemble"].bleu)
    assert cells[0].value == pytest.approx(averages["zero_shot"].bleu)
    assert [cell.repeated for cell in row(made, "en-de").cells] == [False, True, True, False, True]
    assert any("against its ensemble" in line for line in report.answer.details)
    text = markdown(report)
    assert "mixed, ensemble" in text
    assert "de-fr by direct,via:en" in text
    assert "mixed, ensemble" in latex(report)
