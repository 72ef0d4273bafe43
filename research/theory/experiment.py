"""Training tables on exact objectives, and the picture that comes of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from accord.errors import AccordError
from theory.bounds import kappa, pivot_cross_entropy, rarest, xi
from theory.likelihood import agreement_loss, composite, cross_entropy
from theory.tables import Edge, Tables
from theory.world import Sentences, World

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Objective = Literal["composite", "agreement", "protected"]
STAR: tuple[Edge, ...] = ((0, 1), (1, 0), (1, 2), (2, 1))  # language 1 has data with both others


@dataclass(frozen=True)
class Curve:
    """How losses went, step by step: the worst direction with data and the worst without."""

    loss: list[float]
    supervised: list[float]
    zero_shot: list[float]


def train(
    world: World,
    tables: Tables,
    supervised: Collection[Edge],
    objective: Objective,
    *,
    steps: int = 300,
    learning_rate: float = 0.1,
) -> Curve:
    """Minimise an objective over all tables; nothing is sampled.

    Agreement from the first step on may end in agreement on something wrong: while directions with
    data know nothing yet, they are pulled along. Hence the paper's remedies: composite likelihood
    first, or protection of these directions.
    """
    optimizer = torch.optim.Adam(tables.parameters(), lr=learning_rate)
    unseen = [edge for edge in tables.edges if edge not in supervised]
    curve = Curve([], [], [])
    for _ in range(steps):
        optimizer.zero_grad()
        if objective == "composite":
            loss = composite(world, tables, supervised)
        else:
            loss = agreement_loss(world, tables, supervised, protect=objective == "protected")
        loss.backward()  # type: ignore[no-untyped-call]
        curve.loss.append(loss.item())
        with torch.no_grad():
            for edges, found in ((supervised, curve.supervised), (unseen, curve.zero_shot)):
                found.append(max(float(cross_entropy(world, tables, *e)) for e in edges))
        optimizer.step()
    return curve


def draw_figure(path: Path, *, steps: int = 400, seed: int = 0) -> None:
    """Composite likelihood against agreement on three languages; the suffix tells the format."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise AccordError(
            "the figure needs matplotlib, which is not installed", fix="pip install matplotlib"
        ) from error
    world = World.one_to_one(Sentences("ab", 1), 3, seed)
    tables = {objective: Tables(world.sentences, 3, seed) for objective in _COLOURS}
    curves = {o: train(world, tables[o], STAR, o, steps=steps) for o in tables}
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    pivot = pivot_cross_entropy(world, tables["composite"], 0, 1, 2)
    _draw_course(left, curves, float(pivot.detach()))
    _draw_bound(right, curves, xi(world, 0, 1, 2), rarest(world, 0, 2))
    for axes in (left, right):
        axes.legend(fontsize="x-small", loc="upper right", bbox_to_anchor=(1, 0.9))
    with matplotlib.rc_context({"svg.hashsalt": "accord"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


_COLOURS: dict[Objective, str] = {"composite": "tab:orange", "agreement": "tab:blue"}


def _draw_course(axes: "Axes", curves: Mapping[Objective, Curve], pivot: float) -> None:
    """Losses of the worst directions, step by step."""
    for objective, colour in _COLOURS.items():
        curve = curves[objective]
        axes.plot(curve.supervised, color=colour, linestyle=":", label=f"{objective}, with data")
        axes.plot(curve.zero_shot, color=colour, label=f"{objective}, zero-shot")
    axes.axhline(pivot, color="gray", linewidth=0.8, label="composite, by way of the pivot, at end")
    axes.set(xlabel="step", ylabel="cross-entropy of the worst direction", yscale="log")


def _draw_bound(
    axes: "Axes", curves: Mapping[Objective, Curve], certainty: float, rare: float
) -> None:
    """The zero-shot loss at each value of the training loss, and what the theorem allows."""
    for objective, colour in _COLOURS.items():
        curve = curves[objective]
        axes.plot(curve.loss, curve.zero_shot, color=colour, label=f"zero-shot, {objective}")
    allowed = sorted(curves["agreement"].loss)
    bounds = [kappa(eps, certainty, rare) for eps in allowed]
    axes.plot(allowed, bounds, color="black", linewidth=0.8, label="bound κ(ε)")
    axes.set(xlabel="training loss ε", xscale="log", yscale="log", ylim=(None, 1e3))
