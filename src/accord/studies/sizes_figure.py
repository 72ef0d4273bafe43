"""The figure of the small-data study: BLEU against the size of the corpora."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from accord.errors import AccordError
from accord.files import atomic_write
from accord.studies.outcome import NAMES, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FORMATS = ("svg", "png")
# Line and dots tell the systems apart without colours, too.
_LOOKS = {
    "basic": ("tab:orange", "o:"),
    "pivot": ("tab:gray", "s--"),
    "agree": ("tab:blue", "^-"),
    "complete": ("tab:green", "D-."),
}
_WIDE = 10
"""From this ratio of the largest to the smallest size on, the axis is logarithmic."""


def draw_sizes(
    outcomes: Sequence[tuple[int, Outcome]], directory: Path, name: str
) -> tuple[Path, ...]:
    """One panel a zero-shot pair (mean of both directions) and one for all; SVG and PNG."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise AccordError(
            "the figure needs matplotlib, which is not installed",
            fix="pip install matplotlib, and run the same command again",
        ) from error
    panels = zero_shot_pairs(outcomes[0][1])
    everything = [direction for pair in panels.values() for direction in pair]
    panels["all zero-shot directions"] = everything
    figure = Figure(figsize=(3.2 * len(panels), 3.2), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for place, (title, directions) in zip(axes, panels.items(), strict=True):
        _draw(place, title, directions, outcomes)
    axes[0].set(ylabel="BLEU", ylim=(0, None))  # once all is drawn: the panels share it
    axes[0].legend()
    paths = tuple(directory / f"{name}.{end}" for end in FORMATS)
    with matplotlib.rc_context({"svg.hashsalt": "accord"}):
        for path in paths:
            dated = {"Date": None} if path.suffix == ".svg" else None
            with atomic_write(path, "wb") as out:
                figure.savefig(out, format=path.suffix[1:], metadata=dated, dpi=150)
    return paths


def mean_bleu(outcome: Outcome, system: str, directions: Sequence[str]) -> float:
    """BLEU of a system over some directions."""
    return fmean(outcome.row(system, name).bleu.score for name in directions)


def zero_shot_pairs(outcome: Outcome) -> dict[str, list[str]]:
    """The zero-shot directions by pair."""
    found: dict[str, list[str]] = {}
    for row in outcome.directions:
        if row.kind == "zero-shot":
            pair = " – ".join(sorted((row.source, row.target)))
            found.setdefault(pair, []).append(row.direction)
    return found


def _draw(
    axes: "Axes",
    title: str,
    directions: Sequence[str],
    outcomes: Sequence[tuple[int, Outcome]],
) -> None:
    sizes = [size / 1000 for size, _ in outcomes]
    for system, (colour, style) in _LOOKS.items():
        points = [
            (size / 1000, mean_bleu(outcome, system, directions))
            for size, outcome in outcomes
            if system in outcome.systems
        ]
        if points:
            axes.plot(*zip(*points, strict=True), style, color=colour, label=NAMES[system])
    axes.set(title=title, xlabel="thousand lines a corpus")
    if max(sizes) >= _WIDE * min(sizes):
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(sizes, labels=[f"{size:g}" for size in sizes])
