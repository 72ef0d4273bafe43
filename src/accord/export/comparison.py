"""Comparison of an exported model with the run it was made from, on held-out sentences."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from accord.data.store import HeldOutSets
from accord.graph import Direction, TranslationGraph
from accord.inference.backends.manifest import Bleu, Check
from accord.inference.translator import Translator
from accord.metrics.bleu import bleu
from accord.progress import Progress


@dataclass(frozen=True)
class _Sentences:
    direction: Direction
    sources: list[str]
    references: list[str]


def compare_translations(
    original: Translator,
    exported: Translator,
    held_out: HeldOutSets,
    count: int,
    progress: Progress,
) -> Check | None:
    """Translate about `count` test sentences with both, in all directions that have some.

    The dev sentences are taken where there is no test set; None where there is neither.
    """
    split = next((name for name in ("test", "dev") if held_out.sets(name)), None)
    chosen = _chosen(held_out, split, original.graph, count) if split else []
    if split is None or not chosen:
        return None
    progress.start("comparing translations", sum(len(item.sources) for item in chosen))
    same = done = 0
    scores: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in chosen:
        before, after = (_translated(model, item) for model in (original, exported))
        same += sum(a == b for a, b in zip(before, after, strict=True))
        target = item.direction.target
        scores[original.graph.kind(item.direction)].append(
            (bleu(before, item.references, target), bleu(after, item.references, target))
        )
        done += len(item.sources)
        progress.reach(done, str(item.direction))
    return Check(
        split=split,
        sentences=done,
        same=same,
        bleu={
            kind: Bleu(
                directions=len(pairs),
                pytorch=fmean(before for before, _ in pairs),
                exported=fmean(after for _, after in pairs),
            )
            for kind, pairs in scores.items()
        },
    )


def _translated(translator: Translator, item: _Sentences) -> list[str]:
    source, target = item.direction
    return [found.text for found in translator.translate(item.sources, target, source=source)]


def _chosen(
    held_out: HeldOutSets, split: str, graph: TranslationGraph, count: int
) -> list[_Sentences]:
    """Equally many sentences of every direction, from all over its set."""
    pairs = [(direction, held_out.pair(split, *direction)) for direction in graph.directions]
    found = [(direction, pair) for direction, pair in pairs if pair[0]]
    share = -(-count // max(len(found), 1))
    return [
        _Sentences(direction, _spread(sources, share), _spread(references, share))
        for direction, (sources, references) in found
    ]


def _spread(lines: Sequence[str], count: int) -> list[str]:
    count = min(count, len(lines))
    return [lines[i * len(lines) // count] for i in range(count)]
