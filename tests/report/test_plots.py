"""Charts and colours: what is drawn can be read, and survives odd values."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accord.report.charts import Chart, Series, log_worthwhile, svg, swatch
from accord.report.heatmap import ALARM, CIVIDIS, colour, luminance, text_on


def drawn(*series, **options):
    return ElementTree.fromstring(svg(Chart("Loss", "step", "nats", series, **options)))


def numbers(path):
    return [float(x) for x in re.findall(r"-?[\d.]+", path)]


def test_a_rising_line_goes_right_and_up():
    root = drawn(Series("a", ((0, 1), (10, 2), (20, 4)), 0))
    path = next(p.get("d") for p in root.iter("path") if "line" in p.get("class"))
    xs, ys = numbers(path)[::2], numbers(path)[1::2]
    assert xs == sorted(xs)
    assert ys == sorted(ys, reverse=True)


@pytest.mark.parametrize(("first", "ticks"), [(26_000, "26k"), (1_000, "0"), (34_000, "0")])
def test_a_branch_that_begins_late_fills_the_chart(first, ticks):
    root = drawn(Series("a", ((first, 1), (34_000, 2)), 0))
    across = [t.text for t in root.iter("text") if t.get("text-anchor") == "middle"]
    assert across[0] == ticks
    assert max(float(dot.get("cx")) for dot in root.iter("circle")) == 466


def test_thousands_of_points_are_thinned_and_the_last_stays():
    points = tuple((float(i), 1.0 + i % 7) for i in range(10_000))
    root = drawn(Series("a", points, 0))
    path = next(p.get("d") for p in root.iter("path") if "line" in p.get("class"))
    found = numbers(path)
    assert 150 <= len(found) / 2 <= 200
    assert found[-2] == 466  # the right edge
    assert not list(root.iter("circle"))


def test_labels_are_escaped():
    series = Series("<b>", ((1, 1), (2, 2)), 0, names=("<i>", "&"))
    text = svg(Chart("<t>", "<x>", "<y>", (series,)))
    assert "<b>" not in text
    assert "<i>" not in text
    ElementTree.fromstring(text)


def test_a_logarithm_leaves_out_what_it_cannot_show():
    root = drawn(Series("a", ((1, 0.0), (2, 0.5), (3, 5.0)), 0), log_y=True)
    assert len(list(root.iter("circle"))) == 2


def test_a_single_point_is_a_mark_in_chart_and_legend():
    series = Series("a", ((0.2, 1.8),), 1, dotted=True)
    root = drawn(series, log_x=True, log_y=True, square=True)
    assert len(list(root.iter("circle"))) == 1
    assert "<circle" in swatch(series)


def test_a_square_chart_has_one_scale():
    root = drawn(Series("a", ((0.2, 5.0), (2.0, 2.0)), 0), log_x=True, log_y=True, square=True)
    ticks = [t.text for t in root.iter("text") if t.get("class") == "tick"]
    half = len(ticks) // 2
    assert ticks[:half] == ticks[half:]


def test_a_narrow_logarithmic_axis_has_ticks_too():
    root = drawn(Series("a", ((3.1, 3.2), (3.2, 3.3)), 0), log_x=True, log_y=True, square=True)
    assert len([t for t in root.iter("text") if t.get("class") == "tick"]) >= 4


def test_a_logarithm_is_for_wide_ranges():
    assert log_worthwhile([Series("a", ((1, 0.2), (2, 5.0)), 0)])
    assert not log_worthwhile([Series("a", ((1, 2.0), (2, 5.0)), 0)])


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(st.integers(0, 10**6), FINITE), min_size=1, max_size=30))
@example([(0, 5e-324)])
@example([(0, -3.0), (1, -3.0)])
@example([(0, -1.7e308), (1, 1.7e308)])
def test_any_values_can_be_drawn(points):
    points = tuple((float(x), y) for x, y in sorted(points))
    assert_within_the_frame(drawn(Series("a", points, 0)))


@given(st.lists(st.tuples(st.integers(0, 10**6), FINITE), max_size=30), st.floats(1e-90, 1e300))
@example([(0, 5e-324)], 1e4)
def test_any_values_can_be_drawn_on_a_logarithmic_axis(points, positive):
    points = tuple((float(x), y) for x, y in sorted([(3, positive), *points]))
    assert_within_the_frame(drawn(Series("a", points, 0), log_y=True))


def assert_within_the_frame(root) -> None:
    """Every mark of the line lies inside the picture, and nothing is undefined."""
    text = ElementTree.tostring(root, "unicode").lower()
    assert not re.search("nan|inf", text)
    dots = list(root.iter("circle"))
    assert dots
    assert all(0 <= float(dot.get("cx")) <= 480 for dot in dots)
    assert all(0 <= float(dot.get("cy")) <= 300 for dot in dots)


@pytest.mark.parametrize("shades", [CIVIDIS, ALARM])
@given(share=st.floats(0, 1))
def test_text_on_every_colour_can_be_read(share, shades):
    back = colour(share, shades)
    light, dark = sorted((luminance(back), luminance(text_on(back))), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@given(st.floats(0, 0.99))
def test_colours_grow_brighter_and_alarms_darker(share):
    assert luminance(colour(share)) <= luminance(colour(share + 0.01)) + 1e-3
    assert luminance(colour(share, ALARM)) >= luminance(colour(share + 0.01, ALARM)) - 1e-3


@pytest.mark.parametrize("high", [1.0, 0.0001, 123.456, 98_765.0])
def test_the_title_of_an_axis_is_clear_of_its_marks(high):
    root = drawn(Series("a", ((1, high), (2, high / 3)), 0))
    ticks = [t for t in root.iter("text") if t.get("text-anchor") == "end"]
    widest = max(8.6 * len(t.text) for t in ticks)
    (title,) = [t for t in root.iter("text") if "rotate" in t.get("transform", "")]
    place = float(re.search(r"translate\((\d+)", title.get("transform"))[1])
    assert float(ticks[0].get("x")) - widest > place + 5  # letters hang 4 below their line


def test_the_last_step_is_named_above_the_axis():
    series = Series("a", ((0.1, 0.1), (1, 1)), 0, names=("step 9", "step 1"))
    root = drawn(series, log_x=True, log_y=True, square=True)
    named = {t.text: float(t.get("y")) for t in root.iter("text") if t.text.startswith("step ")}
    assert max(named.values()) <= 300 - 46
