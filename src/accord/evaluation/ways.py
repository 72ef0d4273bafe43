"""Which directions are translated how, and what a reader should know is not among the figures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accord.errors import AccordError
from accord.evaluation.consistency_measures import Triple, triples
from accord.evaluation.records import ParallelText
from accord.graph import Direction, TranslationGraph
from accord.inference.ensemble import Ensemble

if TYPE_CHECKING:
    from accord.inference.translator import Translator


@dataclass(frozen=True)
class Ways:
    """What is translated how: directly, through the languages given, and by the ensemble."""

    direct: tuple[Direction, ...]
    pivots: Mapping[Direction, tuple[str, ...]]
    mixed: tuple[Direction, ...]
    triples: tuple[Triple, ...]


def ways_of(
    translator: "Translator",
    sets: Mapping[Direction, ParallelText],
    pivot: bool,
    ensemble: Ensemble | None,
    agreement: bool,
) -> Ways:
    """All that the model can translate of the sets; a chain of directions needs all its legs."""
    graph, known = translator.graph, translator.directions
    possible = frozenset(graph.directions if known is None else known)
    chains = graph.within(known)
    paths = {
        d: chains.pivot_path(*d)
        for d in sets
        if pivot and (d not in graph.supervised or d not in possible)
    }
    pivots = {d: path[1:-1] for d, path in paths.items() if path}
    ways = Ways(
        tuple(d for d in sets if d in possible),
        pivots,
        _mixed(graph, sets, ensemble, possible),
        tuple(
            triple
            for triple in (triples(sets, graph) if agreement else ())
            if all(Direction(side, triple.target) in possible for side in triple.languages)
        ),
    )
    if not ways.direct and not ways.pivots:
        raise AccordError(
            f"no direction that has a set can be translated: {', '.join(map(str, sets))}",
            fix=f"evaluate on a set that has one of {', '.join(map(str, sorted(possible)))}",
        )
    return ways


def _mixed(
    graph: TranslationGraph,
    sets: Mapping[Direction, ParallelText],
    ensemble: Ensemble | None,
    possible: frozenset[Direction],
) -> tuple[Direction, ...]:
    """The zero-shot directions whose pivots are third languages."""
    if ensemble is None:
        return ()
    legs = {
        d: {d, *((d.source, pivot) for pivot in ensemble.pivots)}
        | {(pivot, d.target) for pivot in ensemble.pivots}
        for d in graph.zero_shot
        if d in sets and not set(d) & set(ensemble.pivots)
    }
    return tuple(d for d, needed in legs.items() if needed <= possible)


def notes_on_sets(
    graph: TranslationGraph,
    sets: Mapping[Direction, ParallelText],
    split: str,
    identified: bool,
    pivot: bool,
    ensemble: Ensemble | None,
) -> tuple[str, ...]:
    """What the reader of the figures should know is not among them."""
    notes = []
    if missing := [str(direction) for direction in graph.directions if direction not in sets]:
        notes.append(f"no {split} set, so not evaluated: {', '.join(missing)}")
    if pivot and (cut_off := [str(d) for d in graph.unreachable() if d in sets]):
        notes.append(f"no chain of supervised directions, so no pivot: {', '.join(cut_off)}")
    ends = set(ensemble.pivots) if ensemble else set()
    if left_out := [str(d) for d in graph.zero_shot if d in sets and ends & set(d)]:
        notes.append(f"a pivot of {ensemble} is one of the two, so left out: {', '.join(left_out)}")
    if not identified:
        notes.append(
            "no off-target rates: language identification does not know all of "
            + ", ".join(graph.languages)
        )
    return tuple(notes)


def notes_on_model(
    translator: "Translator",
    sets: Mapping[Direction, ParallelText],
    ways: Ways,
    agreement: bool,
) -> Iterator[str]:
    """What such a model cannot do at all."""
    by_way: dict[tuple[str, ...] | None, list[str]] = {}
    for direction in sets:
        if direction not in ways.direct:
            by_way.setdefault(ways.pivots.get(direction), []).append(str(direction))
    for via, directions in by_way.items():
        how = f"only by way of {', '.join(via)}" if via else "not evaluated"
        yield f"no direct model for {', '.join(directions)}: {how}"
    if agreement and len(ways.triples) < len(triples(sets, translator.graph)):
        yield "agreement only where both languages have a direct model into the third"
    if not translator.has_likelihood:
        yield "the model gives no likelihood: no cross-entropy, so neither ε nor κ, and " + (
            "agreement by BLEU alone" if ways.triples else "no agreement by likelihood"
        )
    if not translator.reads_search_settings:
        yield "the model has a search of its own: --beam and other search options do not apply"
