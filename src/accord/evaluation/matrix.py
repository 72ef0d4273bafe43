"""All directions of a model at once: translated, scored, averaged."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import accord
from accord.data.held_out import GivenSet
from accord.data.language_id import MIN_WORDS
from accord.data.store import HeldOutSets
from accord.data.workers import run_all
from accord.errors import AccordError
from accord.evaluation.consistency_measures import (
    AgreementTask,
    agreement_of,
    agreement_scores,
    consistency,
)
from accord.evaluation.records import (
    FORMAT,
    Agreement,
    Evaluated,
    Evaluation,
    Lines,
    Origin,
    ParallelText,
    find_sets,
)
from accord.evaluation.scores import (
    Scored,
    ScoringTask,
    averages,
    identifiable,
    score_directions,
    scoring_tasks,
)
from accord.evaluation.translations import Chain, Given, Searcher, losses
from accord.evaluation.ways import Ways, notes_on_model, notes_on_sets, ways_of
from accord.graph import Direction, TranslationGraph
from accord.inference.ensemble import Ensemble
from accord.inference.results import Loss, SearchSettings
from accord.machine import cores
from accord.metrics.bleu import bleu_metric, mutual_bleu
from accord.metrics.comet import Comet
from accord.progress import Progress, Silent
from accord.settings_fields import flag

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.inference.translator import Translator


# Starting processes takes a second or two; counting n-grams of fewer sentences takes less.
_WORTH_PROCESSES = 10_000


@dataclass(frozen=True)
class _Searched:
    """What came out of all searches."""

    lines: tuple[Lines, ...]
    agreement: tuple[AgreementTask, ...]
    seconds: float


def evaluate(
    translator: "Translator",
    held_out: HeldOutSets | GivenSet,
    origin: Origin,
    *,
    split: str = "test",
    settings: SearchSettings = SearchSettings(),  # noqa: B008 (frozen)
    pivot: bool = True,
    ensemble: Ensemble | None = None,
    agreement: bool = True,
    limit: int | None = None,
    lines: tuple[int, int] | None = None,
    comet: Comet | None = None,
    progress: Progress | None = None,
) -> Evaluated:
    """Evaluate every direction that has a set in `split`; figures and translations.

    Zero-shot directions are also translated through the shortest chain of supervised ones, unless
    `pivot` is off, and once more by the `ensemble`, if there is one; directions that the model
    cannot translate directly, through that chain alone. `agreement` off saves the
    search for translations that no direction needs where sets are not multi-parallel. `limit` takes
    the first sentences of each set only, `lines` those from one to another, counted from 1. `comet`
    adds its figures.
    """
    progress = progress or Silent()
    started = time.monotonic()
    settings = replace(settings, nbest=1)
    graph = translator.graph
    sets = _find_sets(held_out, split, graph, limit, lines)
    for language in {direction.target for direction in sets}:
        bleu_metric(language)  # a tokeniser that is missing should be known before the search
    if ensemble:
        ensemble.check(graph.languages)
    identified = identifiable(graph.languages)
    missing = tuple(str(direction) for direction in graph.directions if direction not in sets)
    ways = ways_of(translator, sets, pivot, ensemble, agreement)
    notes = (
        *notes_on_sets(graph, sets, split, bool(identified), pivot, ensemble),
        *notes_on_model(translator, sets, ways, agreement),
    )
    if isinstance(held_out, GivenSet):
        notes += (
            f"{split} was read from {held_out.text.origin}; nothing took its lines out of the "
            "training text",
        )
    for note in notes:
        progress.note(note)

    searched = _search(translator, sets, ways, settings, ensemble, progress)
    scored = _score(searched.lines, identified, progress)
    if comet is not None:
        scored = _with_comet(scored, searched.lines, comet, progress)
    agreed = _agreement(translator, searched.agreement, progress)
    rows = [row.scores for row in scored]
    evaluation = Evaluation(
        format=FORMAT,
        name=evaluation_name(split, settings, origin.checkpoint, limit, lines),
        accord=accord.__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        origin=origin,
        split=split,
        limit=limit,
        search=asdict(settings) if translator.reads_search_settings else {},
        languages=graph.languages,
        min_words=MIN_WORDS,
        directions=tuple(row for row in rows if row.is_direct),
        via_pivot=tuple(row for row in rows if row.via),
        missing=missing,
        notes=notes,
        averages=averages(scored, graph.languages),
        consistency=consistency(rows),
        agreement=agreed,
        seconds=time.monotonic() - started,
        seconds_searching=searched.seconds,
        by_ensemble=tuple(row for row in rows if row.ensemble),
        lines=lines,
        comet_signature=comet.signature if comet else "",
    )
    kept = {row.scores.name: row.statistics for row in scored}
    return Evaluated(evaluation, searched.lines, kept)


def evaluation_name(
    split: str,
    settings: SearchSettings,
    checkpoint: str = "best",
    limit: int | None = None,
    lines: tuple[int, int] | None = None,
) -> str:
    """The folder of an evaluation: `test-beam4`, and whatever differs from the defaults.

    It tells what was asked for, also of a model that reads no search settings: so a study finds the
    evaluations of all its runs under one name.
    """
    others = _differences(settings, checkpoint, limit, lines)
    return "-".join([split, f"beam{settings.beam}", *(part for _, _, part in others)])


def evaluation_options(
    split: str,
    settings: SearchSettings,
    checkpoint: str = "best",
    limit: int | None = None,
    lines: tuple[int, int] | None = None,
) -> list[str]:
    """The options of `accord evaluate` that make an evaluation of the same name."""
    given: dict[str, object] = {"split": split} if split != "test" else {}
    if settings.beam != SearchSettings().beam:
        given["beam"] = settings.beam
    others = _differences(settings, checkpoint, limit, lines)
    given |= {key: value for key, value, _ in others if key != "window"}  # no option has that
    return [part for key, value in given.items() for part in (flag(key), str(value))]


_SEARCH_PARTS = {
    "length_penalty": "penalty{:g}",
    "vocabulary": "{}-vocabulary",
    "no_repeat_ngram": "norepeat{}",
    "pivot_nbest": "pivots{}",
    "window": "window{}",
}


def _differences(
    settings: SearchSettings, checkpoint: str, limit: int | None, lines: tuple[int, int] | None
) -> Iterator[tuple[str, object, str]]:
    """What differs from the defaults: a key, its value, and how the name says it."""
    usual = SearchSettings()
    for key, form in _SEARCH_PARTS.items():
        value = getattr(settings, key)
        if value != getattr(usual, key):
            yield key, value, form.format(value)
    if checkpoint != "best":
        yield "checkpoint", checkpoint, checkpoint
    if limit is not None:
        yield "limit", limit, f"first{limit}"
    if lines is not None:
        span = f"{lines[0]}-{lines[1]}"
        yield "lines", span, f"lines{span}"


def _find_sets(
    held_out: HeldOutSets | GivenSet,
    split: str,
    graph: TranslationGraph,
    limit: int | None,
    lines: tuple[int, int] | None,
) -> dict[Direction, ParallelText]:
    if limit is not None and limit < 1:
        raise AccordError(f"a limit of {limit} sentences leaves none", fix="give 1 or more")
    if limit is not None and lines is not None:
        raise AccordError(
            f"both a limit ({limit}) and lines ({lines[0]}-{lines[1]}) are given",
            fix=f"give one of them: --limit {limit} is --lines 1-{limit}",
        )
    sets = find_sets(held_out, split, graph.directions, limit, lines)
    if not sets:
        given = [name for name in ("dev", "test") if held_out.sets(name)]
        raise AccordError(
            f"the run has no '{split}' set",
            fix=f"evaluate on {' or '.join(given)}"
            if given
            else f"give the experiment a `{split}` set and prepare again",
        )
    return sets


def _search(
    translator: "Translator",
    sets: Mapping[Direction, ParallelText],
    ways: Ways,
    settings: SearchSettings,
    ensemble: Ensemble | None,
    progress: Progress,
) -> _Searched:
    graph = translator.graph
    wanted: list[tuple[Direction, tuple[str, ...]]] = [(d, ()) for d in ways.direct]
    wanted += ways.pivots.items()
    chains = [Chain(sets[d].sources, d.source, (*via, d.target)) for d, via in wanted]
    sides = [chain for triple in ways.triples for chain in triple.chains()]
    started = time.monotonic()
    searcher = Searcher(translator, settings, progress)
    ends = searcher.follow([*chains, *sides])
    again = [Chain(sets[d].sources, d.source, (d.target,)) for d in ways.mixed]
    together = searcher.together(again, ensemble) if ensemble else []
    seconds = time.monotonic() - started

    scored = ways.direct if translator.has_likelihood else ()
    given = [Given(sets[d].sources, sets[d].references, *d) for d in scored]
    measured = losses(translator, given, progress, "cross-entropy") if given else []
    known = dict(zip(scored, measured, strict=True))
    lines = []
    for (direction, via), hypotheses in zip(wanted, ends, strict=False):
        loss = None if via else known.get(direction)
        lines.append(_lines(graph, direction, sets[direction], hypotheses, via, loss))
    for direction, hypotheses in zip(ways.mixed, together, strict=True):
        found = _lines(graph, direction, sets[direction], hypotheses)
        lines.append(replace(found, ensemble=str(ensemble)))
    rest = ends[len(chains) :]
    pairs = zip(rest[::2], rest[1::2], strict=True)
    tasks = [AgreementTask(*task) for task in zip(ways.triples, pairs, strict=True)]
    return _Searched(tuple(lines), tuple(tasks), seconds)


def _lines(
    graph: TranslationGraph,
    direction: Direction,
    item: ParallelText,
    hypotheses: tuple[str, ...],
    via: tuple[str, ...] = (),
    loss: Loss | None = None,
) -> Lines:
    return Lines(
        direction=direction,
        kind=graph.kind(direction),
        test_set=item.name,
        sources=item.sources,
        hypotheses=hypotheses,
        references=item.references,
        via=via,
        nats=loss.nats if loss else None,
        tokens=loss.tokens if loss else 0,
    )


def _score(lines: Sequence[Lines], identified: tuple[str, ...], progress: Progress) -> list[Scored]:
    workers = _workers_for(sum(len(item.sources) for item in lines))
    progress.start("scoring", len(lines))
    tasks = scoring_tasks(lines, identified, workers)
    found = run_all(_score_together, tasks, workers, progress)
    by_name = {row.scores.name: row for rows in found for row in rows}
    return [by_name[item.name] for item in lines]


def _with_comet(
    scored: Sequence[Scored], lines: Sequence[Lines], comet: Comet, progress: Progress
) -> list[Scored]:
    progress.start("COMET", len(lines))
    found = []
    for done, (row, item) in enumerate(zip(scored, lines, strict=True), start=1):
        score = comet.score(item.sources, item.hypotheses, item.references)
        found.append(replace(row, scores=replace(row.scores, comet=score)))
        progress.reach(done)
    return found


def _score_together(task: ScoringTask, report: "Callable[[int], None]") -> list[Scored]:
    found = []
    for row in score_directions(task):
        found.append(row)
        report(len(found))
    return found


def _agreement(
    translator: "Translator", tasks: Sequence[AgreementTask], progress: Progress
) -> Agreement | None:
    given = [crossed for task in tasks for crossed in task.crossed()]
    crossed: Sequence[tuple[Loss, Loss] | None] = [None] * len(tasks)
    if tasks and translator.has_likelihood:
        found = losses(translator, given, progress, "agreement, likelihood")
        crossed = list(zip(found[::2], found[1::2], strict=True))
    count = sum(len(item.sources) for item in given)
    progress.start("agreement, BLEU", len(tasks))
    bleus = run_all(_mutual_bleu, tasks, _workers_for(count), progress) if tasks else []
    rows = [agreement_scores(*row) for row in zip(tasks, bleus, crossed, strict=True)]
    return agreement_of(rows)


def _mutual_bleu(task: AgreementTask, report: "Callable[[int], None]") -> float:
    found = mutual_bleu(*task.translations, task.triple.target)
    report(1)
    return found


def _workers_for(sentences: int) -> int:
    """Processes to score so many sentences with."""
    return cores() if sentences > _WORTH_PROCESSES else 1
