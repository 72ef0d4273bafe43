"""Translation along a chain of languages: into the first, from there into the next, and so on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from accord.errors import AccordError
from accord.inference.results import Hypothesis, SearchSettings, Translation

# Texts, the language to translate into, how to search, and the language of the texts, if known.
Translate = Callable[[Sequence[str], str, SearchSettings, str | None], list[Translation]]


def translate_along(
    translate: Translate,
    texts: Sequence[str],
    path: Sequence[str],
    settings: SearchSettings,
    source: str | None = None,
) -> list[Translation]:
    """Translate into each language of `path` in turn, by `translate`, which knows no pivots.

    Each leg is told the language of the one before, the first one that of the texts.

    `settings.pivot_nbest` translations are carried on from leg to leg. Scores and log-probabilities
    are added up over the legs, where all of them have one; of translations that read the same, the
    best counts. Where several are carried on, a leg without log-probabilities is refused: its
    scores are of a scale of their own, and the sums would mean nothing.
    """
    leg = replace(settings, nbest=settings.pivot_nbest)
    found = translate(texts, path[0], settings if len(path) == 1 else leg, source)
    for number, (pivot, target) in enumerate(pairwise(path), start=1):
        wanted = settings if number == len(path) - 1 else leg
        read = [hypothesis.text for item in found for hypothesis in item.hypotheses]
        onward = iter(translate(read, target, wanted, pivot))
        found = [
            _joined(before, [next(onward) for _ in before.hypotheses], pivot, wanted)
            for before in found
        ]
    return found


def _joined(
    before: Translation, after: Sequence[Translation], pivot: str, settings: SearchSettings
) -> Translation:
    pairs = [
        (first, _summed(first, second))
        for first, translation in zip(before.hypotheses, after, strict=True)
        for second in translation.hypotheses
    ]
    if len(before.hypotheses) > 1 and any(whole.log_probability is None for _, whole in pairs):
        raise AccordError(
            f"pivot_nbest cannot be above 1 by way of {pivot}: one of the legs gives no "
            "log-probabilities, and its scores cannot be added to those of another",
            fix="leave it at 1: the best translation into each pivot is read",
        )
    pairs.sort(key=lambda pair: -pair[1].score)
    texts = [pair[1].text for pair in pairs]
    best = [pair for place, pair in enumerate(pairs) if pair[1].text not in texts[:place]]
    led = best[0][0]
    others = tuple(item for item in before.hypotheses if item is not led)
    notes = (*before.warnings, *(note for item in after for note in item.warnings))
    return Translation(
        before.source,
        tuple(hypothesis for _, hypothesis in best[: settings.nbest]),
        (*before.via, pivot),
        replace(before, hypotheses=(led, *others)),
        tuple(dict.fromkeys(notes)),
    )


def _summed(first: Hypothesis, second: Hypothesis) -> Hypothesis:
    log_p = None
    if first.log_probability is not None and second.log_probability is not None:
        log_p = first.log_probability + second.log_probability
    return replace(second, score=first.score + second.score, log_probability=log_p)
