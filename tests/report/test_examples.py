"""Which sentences are shown, and the tables of data and figures."""

from dataclasses import replace

import pytest

from accord.report import figures
from accord.report.contents import build
from accord.report.examples import examples
from accord.report.figures import accounts
from accord.report.heatmap import (
    ALARM,
    CIVIDIS,
    bleu_maps,
    colour,
    luminance,
    off_target_maps,
)
from made_runs import LINES, make_run


def test_zero_shot_directions_come_first_and_pivots_only_there(tmp_path):
    found = examples(build([make_run(tmp_path / "run")]))
    assert [each.direction for each in found[:2]] == ["de-fr", "fr-de"]
    assert len(found) == 6
    for each in found:
        systems = {output.system for example in each.examples for output in example.outputs}
        assert systems == ({"run", "run, pivot"} if each.kind == "zero-shot" else {"run"})


def test_lines_are_spread_and_the_worst_are_really_bad(tmp_path):
    report = build([make_run(tmp_path / "run", lost=0.2)])
    found = examples(report)[0]
    unpicked = [example for example in found.examples if not example.worst]
    assert [example.line for example in unpicked] == [6, 16, 26, 36]
    worst = [example for example in found.examples if example.worst]
    assert len(worst) == 2
    assert not any(output.exact for example in worst for output in example.outputs[:1])
    line = next(x for x in report.main.evaluated.lines if x.name == found.direction)
    for example in found.examples:
        assert example.source == line.sources[example.line - 1]
        assert example.outputs[0].text == line.hypotheses[example.line - 1]


def test_a_perfect_direction_has_no_worst_sentences(tmp_path):
    found = examples(build([make_run(tmp_path / "run", lost=0.0)]))
    assert not any(example.worst for each in found for example in each.examples)


def test_a_tiny_set_is_shown_whole_and_once(tmp_path):
    found = examples(build([make_run(tmp_path / "run", limit=3)]))
    assert {tuple(example.line for example in each.examples) for each in found} == {(1, 2, 3)}


def test_a_translation_that_runs_away_is_cut(tmp_path):
    def endless(lines):
        return tuple(
            replace(item, hypotheses=("word " * 1000,) * len(item.hypotheses)) for item in lines
        )

    found = examples(build([make_run(tmp_path / "run", change=endless)]))
    assert len(found[0].examples[0].outputs[0].text) < 700


def test_the_accounting_adds_up(tmp_path):
    corpora, overlap, held_out = accounts(build([make_run(tmp_path / "run")]))
    assert corpora.head == ("corpus", "read", "overlap", "kept", "subwords")
    assert corpora.rows[-1] == ("all", "12,000", "−3,920", "8,080", "100,000")
    assert overlap.rows == (("en-de and en-fr", "en", "yes", "2,964", "0"),)
    assert held_out.rows[0][-1] == str(LINES)


def test_all_figures_have_a_row_for_each_translation(tmp_path):
    grid = figures.all_figures(build([make_run(tmp_path / "run")]).main)
    assert {len(row) for row in grid.rows} == {len(grid.head)}
    assert grid.rows[-1][0] == "fr-de via en"
    assert len(grid.rows) == 8


def test_validations_are_thinned_from_the_end(tmp_path):
    run = build([make_run(tmp_path / "run")]).main
    many = tuple(replace(run.history.validations[0], step=step) for step in range(1, 102))
    grid = figures.validations(replace(run, history=replace(run.history, validations=many)))
    assert len(grid.rows) <= 20
    assert grid.rows[-1][0] == "101"


def background(heat):
    return {c.direction: c.background for _, row in heat.rows for c in row if c}


def test_a_colour_means_the_same_in_every_report(tmp_path):
    """Whatever else stands there: BLEU from 0 to 60, off-target rates from 0 to 50 %."""
    paths = [
        make_run(tmp_path / name, lost=lost, off_target=lost)
        for name, lost in (("good", 0.0), ("bad", 0.9))
    ]
    good, mixed = build(paths[:1]), build(paths[::-1])
    alone, beside = bleu_maps(good)[0], bleu_maps(mixed)[1]
    assert background(alone) == background(beside)
    assert set(background(alone).values()) == {CIVIDIS[-1]}  # 100 BLEU, all of them
    assert alone.ticks == ("0", "20", "40", "60 +")
    half = replace(good.main.evaluation.directions[0].bleu, score=30.0)
    assert background(bleu_maps(with_bleu(good, half))[0])["en-de"] == colour(0.5)


def with_bleu(report, bleu):
    """The report with other scores."""
    main = report.main
    rows = tuple(replace(row, bleu=bleu) for row in main.evaluation.directions)
    changed = replace(main.evaluated, evaluation=replace(main.evaluation, directions=rows))
    return replace(report, runs=(replace(main, evaluated=changed),))


@pytest.mark.parametrize(
    ("rate", "shade"),
    [(0.0, ALARM[0]), (0.25, colour(0.5, ALARM)), (0.5, ALARM[-1]), (1.0, ALARM[-1])],
)
def test_nothing_off_target_is_no_warning(tmp_path, rate, shade):
    (heat,) = off_target_maps(build([make_run(tmp_path / "run", off_target=rate)]))
    assert set(background(heat).values()) == {shade}
    assert luminance(ALARM[0]) > 0.8  # pale, whatever its hue
