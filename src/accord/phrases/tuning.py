"""Tuning: the weights of the log-linear model that give the highest BLEU on dev sentences.

Minimum error rate training (Och 2003) needs long lists of different translations, which Thot does
not give; so the dev sentences are translated anew for every trial. The search is Hooke and Jeeves'
(1961): one weight after the other is moved up, else down, and the better place is kept; a weight
that is better where it is moves by half as much the next time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accord.metrics.bleu import bleu
from accord.phrases.decoder import FEATURES, FIRST_WEIGHTS, PhraseDecoder

# Which weights move, in this order, and how far at first. That of phrases stays: only ratios count.
_STEPS = {
    "word_penalty": 0.6,
    "language_model": 0.3,
    "jumps": 0.1,
    "phrases_inverse": 0.4,
    "target_lengths": 0.3,
}
_FREE = ("word_penalty",)  # the others would reward what is improbable if they were negative


@dataclass(frozen=True)
class Tuned:
    """The best weights found, and the BLEU of the dev sentences with the first and with these."""

    weights: tuple[float, ...]
    first: float
    best: float


def hooke_jeeves(
    score: Callable[[Sequence[float]], float], evaluations: int
) -> tuple[tuple[float, ...], float, float]:
    """The weights with the highest score among so many trials, the score of the first, the best."""
    weights, steps = list(FIRST_WEIGHTS), dict(_STEPS)
    first = best = score(weights)
    left = evaluations - 1
    while left > 0:
        for name, step in steps.items():
            place, better = FEATURES.index(name), False
            for move in (step, -step):
                trial = [*weights]
                trial[place] += move
                if better or left <= 0 or (trial[place] < 0 and name not in _FREE):
                    continue
                left -= 1
                if (found := score(trial)) > best:
                    weights, best, better = trial, found, True
            if not better:
                steps[name] = step / 2
    return tuple(weights), first, best


def tune(
    decoder: PhraseDecoder,
    sources: Sequence[str],
    references: Sequence[str],
    target: str,
    evaluations: int,
    report: Callable[[], None],
) -> Tuned:
    """Find weights for a decoder into the language `target`; `report` hears of each trial."""

    def score(weights: Sequence[float]) -> float:
        decoder.weigh(weights)
        found = [each.text for each in decoder.translate(sources)]
        report()
        return bleu(found, references, target)

    return Tuned(*hooke_jeeves(score, evaluations))
