"""The search for weights: it climbs, counts its trials and moves no weight where it may not go."""

import pytest

from accord.phrases.decoder import FEATURES, FIRST_WEIGHTS
from accord.phrases.tuning import hooke_jeeves, tune

PEAK = dict(zip(FEATURES, (-2.5, 1.7, 0.1, 0.9, 0.0, 1.0, 0.3, 0.0), strict=True))


def test_it_comes_near_the_peak():
    peak = list(PEAK.values())

    def score(weights):
        return -sum((one - other) ** 2 for one, other in zip(weights, peak, strict=True))

    weights, first, best = hooke_jeeves(score, 200)
    assert weights == pytest.approx(peak, abs=0.05)
    assert (first, best) == (score(FIRST_WEIGHTS), score(weights))


@pytest.mark.parametrize("evaluations", [1, 2, 17, 60])
def test_it_tries_as_often_as_it_may(evaluations):
    tried = []

    def score(weights):
        tried.append(tuple(weights))
        return -len(tried)  # the first ones are the best

    weights, first, best = hooke_jeeves(score, evaluations)
    assert len(tried) == evaluations
    assert weights == tried[0] == FIRST_WEIGHTS
    assert first == best == -1


def test_each_weight_is_moved_up_and_down_and_by_half_as_much_the_next_time():
    tried = []

    def score(weights):
        tried.append(dict(zip(FEATURES, weights, strict=True)))
        return 1.0  # no better than the first: nothing is kept

    assert hooke_jeeves(score, 21)[0] == FIRST_WEIGHTS
    first = tried[0]
    assert first == {"word_penalty": -1.0, "language_model": 1.0, "target_lengths": 0.5,
                     "jumps": 0.2, "source_lengths": 0.0, "phrases": 1.0, "phrases_inverse": 1.0,
                     "sentence_length": 0.0}  # fmt: skip
    moves = [{k: w - first[k] for k, w in trial.items() if w != first[k]} for trial in tried[1:]]
    steps = {"word_penalty": 0.6, "language_model": 0.3, "jumps": 0.1, "phrases_inverse": 0.4,
             "target_lengths": 0.3}  # fmt: skip
    wanted = [
        {k: by * step} for part in (1, 0.5) for k, step in steps.items() for by in (part, -part)
    ]
    assert moves == [pytest.approx(move) for move in wanted]


def test_only_the_word_penalty_may_be_negative():
    lowest = list(FIRST_WEIGHTS)

    def score(weights):
        for place, weight in enumerate(weights):
            lowest[place] = min(lowest[place], weight)
        return -sum(weights)

    hooke_jeeves(score, 100)
    assert lowest[0] < -2
    assert min(lowest[1:]) == 0
    assert lowest[FEATURES.index("phrases")] == 1  # it stays, since only ratios count


class Decoder:
    """Says the right thing where the language model has more weight than at first."""

    def weigh(self, weights):
        self.good = weights[FEATURES.index("language_model")] > 1

    def translate(self, texts):
        class Found:
            text = "a b c d e f" if self.good else "a b x d y f"

        return [Found() for _ in texts]


def test_weights_are_chosen_by_bleu():
    heard = []
    found = tune(Decoder(), ["x"], ["a b c d e f"], "en", 4, lambda: heard.append(1))
    assert found.weights[1] > 1
    assert found.first < found.best == pytest.approx(100)
    assert len(heard) == 4
