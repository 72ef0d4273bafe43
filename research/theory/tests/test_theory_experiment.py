import sys
from pathlib import Path

import pytest

from accord.errors import AccordError
from theory.bounds import kappa, pivot_cross_entropy, rarest, xi
from theory.experiment import STAR, draw_figure, train
from theory.likelihood import cross_entropy
from theory.tables import Tables
from theory.world import Sentences, World

SMALL = Sentences("ab", 1)


def test_composite_likelihood_alone_is_not_consistent() -> None:
    world = World.one_to_one(SMALL, 3)
    tables = Tables(SMALL, 3)
    before = {e: cross_entropy(world, tables, *e).item() for e in ((0, 2), (2, 0))}
    curve = train(world, tables, STAR, "composite", steps=150)
    assert curve.supervised[-1] < 0.02
    for edge, value in before.items():
        assert cross_entropy(world, tables, *edge).item() == value
    # The same model, decoded by way of the language with data, is good.
    assert pivot_cross_entropy(world, tables, 0, 1, 2).item() < 0.05


def test_agreement_is_consistent_within_its_bound() -> None:
    world = World.one_to_one(SMALL, 3)
    tables = Tables(SMALL, 3)
    curve = train(world, tables, STAR, "agreement", steps=200)
    assert curve.zero_shot[0] > 1
    assert curve.zero_shot[-1] < 0.05
    constants = [(xi(world, *way), rarest(world, way[0], way[2])) for way in ((0, 1, 2), (2, 1, 0))]
    for loss, zero_shot in zip(curve.loss, curve.zero_shot, strict=True):
        if loss < 20:
            assert zero_shot <= max(kappa(loss, *c) for c in constants)


def both_ways(*pairs: tuple[int, int]) -> list[tuple[int, int]]:
    return [edge for one, other in pairs for edge in ((one, other), (other, one))]


CHAIN = both_ways((0, 1), (1, 2), (2, 3))
APART = both_ways((0, 1), (2, 3))


@pytest.mark.parametrize(("edges", "consistent"), [(CHAIN, True), (APART, False)])
def test_any_graph_will_do_if_its_data_spans_it(
    edges: list[tuple[int, int]], consistent: bool
) -> None:
    world = World.one_to_one(SMALL, 4)
    tables = Tables(SMALL, 4)
    train(world, tables, edges, "composite", steps=100)
    curve = train(world, tables, edges, "agreement", steps=150)
    assert curve.supervised[-1] < 0.02
    assert (curve.zero_shot[-1] < 0.02) == consistent


def test_agreement_too_early_may_agree_on_something_wrong() -> None:
    world = World.one_to_one(SMALL, 4)
    ends = {}
    for objective in ("agreement", "protected"):
        curve = train(world, Tables(SMALL, 4), CHAIN, objective, steps=400)
        ends[objective] = curve.supervised[-1], curve.zero_shot[-1]
    assert min(ends["agreement"]) > 0.3
    assert max(ends["protected"]) < 0.05


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_figure_is_drawn_and_the_same_each_time(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    paths = [tmp_path / f"{name}.{suffix}" for name in ("one", "two")]
    for path in paths:
        draw_figure(path, steps=20)
    assert paths[0].stat().st_size > 5000
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_without_matplotlib_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(AccordError, match=r"pip install matplotlib"):
        draw_figure(tmp_path / "figure.svg", steps=1)
