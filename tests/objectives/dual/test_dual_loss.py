"""Dual learning's gradient, by enumeration: in the mean it is that of the expected reward."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from accord.config.objectives import DualConfig
from accord.data.vocabulary import EOS, PAD
from accord.models.language_model import LanguageModel
from accord.models.transformer import Transformer
from accord.objectives.agreement.decoding import Translations
from accord.objectives.dual import loss
from accord.objectives.dual.inputs import DualInputs
from accord.objectives.dual.loss import advantages, dual

V, TAGS = 4, (2, 3)  # padding, the end and two tags: enough to tell sentences apart
# All that can be said in two tokens: nothing, or one of three tokens and then any.
SENTENCES = [[EOS], *([one, other] for one in (PAD, 2, 3) for other in range(V))]
SHORT = [[token] for token in range(V)]  # and in one token
SOURCES = [[2, EOS], [3, 2, EOS], [3, EOS]]
UNIGRAMS = torch.zeros(2, V, dtype=torch.float64)


def models() -> tuple[Transformer, LanguageModel]:
    torch.manual_seed(3)
    model = Transformer(V, 4, 1, 1, heads=1, feed_forward=4).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2  # so that translations differ in what they are worth
    return model, LanguageModel(V, 2, 4, layers=1).double().eval().requires_grad_(False)


def settings(**keys) -> DualConfig:
    free = {"distinct_bigrams": 0.0, "least_length": 0.0, "advantage_limit": None}
    return DualConfig(language_model="unused", temperature=1.0, **(free | keys))


def rows(count: int) -> DualInputs:
    """Sentences of the first language, which go into the second."""
    width = max(map(len, SOURCES)) + 1
    padded = [[TAGS[1], *x, *[PAD] * (width - 1 - len(x))] for x in SOURCES[:count]]
    own = torch.zeros(count, dtype=torch.int64)
    return DualInputs(
        torch.tensor(padded),
        torch.tensor([len(x) + 1 for x in SOURCES[:count]]),
        own + TAGS[0],
        own,
        own + 1,
        torch.ones(count, dtype=torch.float64),
    )


def forced(chosen) -> Translations:
    """As if these had been drawn."""
    real_BT = torch.tensor([[True, len(z) > 1] for z in chosen])
    tokens_BT = torch.tensor([[*z, PAD][:2] for z in chosen])
    none = torch.zeros(len(chosen), 2, 1)
    return Translations(none, none, tokens_BT, none[..., 0], real_BT)


@pytest.fixture
def say(monkeypatch):
    """Lets a list of translations be drawn and nothing be dropped, not even what has no end."""
    chosen: list = []
    monkeypatch.setattr(loss, "generate", lambda *_, **__: forced(chosen))
    monkeypatch.setattr(loss, "_degenerate", lambda *_: torch.zeros(len(chosen), dtype=torch.bool))

    def say(translations) -> None:
        chosen[:] = translations

    return say


def log_p(model, source: list[int], target: list[int]) -> Tensor:
    """Of a target given a row with its tag, written out."""
    memory = model.encode(torch.tensor([source]), torch.tensor([len(source)]))
    hidden = model.decode(memory, model.shifted_embeddings(torch.tensor([target])))
    return model.logits(hidden)[0].log_softmax(-1)[torch.arange(len(target)), target].sum()


def reward(model, language_model, x: list[int], z: list[int], alpha: float) -> Tensor:
    """R(z), nats a token, written out."""
    said = [token for k, token in enumerate(z) if token != EOS or k < len(z) - 1]
    back = log_p(model, [TAGS[0], *said, EOS], x) / len(x)
    return alpha * log_p(language_model, [TAGS[1]], z) / len(z) + (1 - alpha) * back


def expected(
    model, language_model, config, sentences, of_policy=True, of_reward=True
) -> list[Tensor]:
    """The gradient of the mean reward, summed over the sources, or a part of it."""
    total = torch.zeros((), dtype=torch.float64)
    for x, z in itertools.product(SOURCES, sentences):
        chance = log_p(model, [TAGS[1], *x], z).exp()
        worth = reward(model, language_model, x, z, config.alpha)
        total = total + (chance if of_policy else chance.detach()) * (
            worth if of_reward else worth.detach()
        )
    return gradients(model, total)


def gradients(model, value: Tensor) -> list[Tensor]:
    wanted = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(value, wanted, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(wanted, found, strict=True)]


def mean_estimate(model, language_model, config, say) -> list[Tensor]:
    """The mean of minus the loss's gradient over all that could be drawn together, in one token."""
    with torch.no_grad():
        chances = [[log_p(model, [TAGS[1], *x], z).exp() for z in SHORT] for x in SOURCES]
    inputs = rows(len(SOURCES))
    total = 0.0
    for picks in itertools.product(range(V), repeat=len(SOURCES)):
        say([SHORT[k] for k in picks])
        found = dual(model, language_model, inputs, config, UNIGRAMS)
        chance = torch.stack([row[k] for row, k in zip(chances, picks, strict=True)]).prod()
        total = total - chance * found.losses["loss"]
    return gradients(model, total)


def test_all_sentences_are_there():
    model, _ = models()
    for x in SOURCES:
        chances = [log_p(model, [TAGS[1], *x], z).exp() for z in SENTENCES]
        assert sum(chances).item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.01, 0.6])
def test_without_baseline_the_mean_estimate_is_the_gradient_of_the_mean_reward(say, alpha):
    """Rows then know nothing of each other: all translations at once, each as often as it comes."""
    model, judge = models()
    config = settings(alpha=alpha, baseline="none")
    with torch.no_grad():
        pairs = list(itertools.product(range(len(SOURCES)), SENTENCES))
        chances = [log_p(model, [TAGS[1], *SOURCES[k]], z).exp() for k, z in pairs]
    say([z for _, z in pairs])
    places = torch.tensor([k for k, _ in pairs])
    inputs = rows(len(SOURCES)).map_tensors(lambda tensor: tensor[places])
    found = dual(model, judge, replace(inputs, weight_B=torch.stack(chances)), config, UNIGRAMS)
    exact = expected(model, judge, config, SENTENCES)
    same(gradients(model, -found.losses["loss"]), exact)
    # Without back-translation much of it would be missing.
    policy = expected(model, judge, config, SENTENCES, of_reward=False)
    assert distance(policy, exact) > 0.1 * length(exact)


def test_the_mean_of_the_others_as_a_baseline_changes_nothing_in_the_mean(say):
    model, judge = models()
    config = settings(alpha=0.01, baseline="others")
    same(mean_estimate(model, judge, config, say), expected(model, judge, config, SHORT))


def test_the_mean_of_all_as_a_baseline_shortens_the_first_term(say):
    model, judge = models()
    config = settings(alpha=0.01, baseline="batch")
    policy = expected(model, judge, config, SHORT, of_reward=False)
    back = expected(model, judge, config, SHORT, of_policy=False)
    right = [(1 - 1 / len(SOURCES)) * one + other for one, other in zip(policy, back, strict=True)]
    found = mean_estimate(model, judge, config, say)
    same(found, right)
    assert distance(found, expected(model, judge, config, SHORT)) > 0.01 * length(policy)


def same(one: list[Tensor], other: list[Tensor]) -> None:
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def distance(one: list[Tensor], other: list[Tensor]) -> float:
    return length([a - b for a, b in zip(one, other, strict=True)])


def length(gradient: list[Tensor]) -> float:
    return torch.cat([part.flatten() for part in gradient]).norm().item()


# --- one batch -------------------------------------------------------------------------------


def test_rewards_are_counted_a_token(say):
    model, judge = models()
    config, chosen = settings(alpha=0.3), [SENTENCES[0], SENTENCES[9]]
    say(chosen)
    counts = dual(model, judge, rows(2), config, UNIGRAMS).counts
    worth = [reward(model, judge, x, z, 0.3) for x, z in zip(SOURCES[:2], chosen, strict=True)]
    assert counts["reward"].item() == pytest.approx(sum(worth).item())
    parts = 0.3 * counts["fluency"] + 0.7 * counts["reconstruction"]
    assert parts.item() == pytest.approx(counts["reward"].item())
    assert (counts["sentences"], counts["kept"], counts["copies"]) == (2, 2, 0)
    assert (counts["tokens"], counts["reference_tokens"]) == (3, 5)


def test_a_copy_is_told_from_what_only_begins_like_it(say):
    model, judge = models()
    for first, copies in (([2, EOS], 1), ([2, 3], 0), ([EOS], 0)):
        say([first, [3, 2]])  # the second is cut off before its end
        counts = dual(model, judge, rows(2), settings(), UNIGRAMS).counts
        assert counts["copies"].item() == copies


def test_rows_without_weight_change_nothing(say):
    """They have nowhere to go, or only fill up the shape: neither loss nor baseline knows them."""
    model, judge = models()
    say([SENTENCES[3], SENTENCES[9]])
    two = dual(model, judge, rows(2), settings(), UNIGRAMS)
    more = rows(2)
    idle = DualInputs(
        torch.tensor([[EOS, PAD, PAD, PAD]]), *(torch.ones(1, dtype=torch.int64) for _ in range(4)),
        torch.zeros(1, dtype=torch.float64),
    )  # fmt: skip
    both = [torch.cat(pair) for pair in zip(vars(more).values(), vars(idle).values(), strict=True)]
    say([SENTENCES[3], SENTENCES[9], SENTENCES[5]])
    three = dual(model, judge, DualInputs(*both), settings(), UNIGRAMS)
    torch.testing.assert_close(three.losses, two.losses)
    torch.testing.assert_close(dict(three.counts), dict(two.counts))
    torch.testing.assert_close(
        gradients(model, three.losses["loss"]), gradients(model, two.losses["loss"])
    )


@pytest.mark.parametrize(
    ("chosen", "keys", "kept"),
    [
        ([3, EOS], {}, 1),
        ([3, 2], {}, 0),  # without an end
        ([3, EOS], {"least_length": 1.0}, 1),  # one token less than three is allowed
        ([EOS], {"least_length": 1.0}, 0),
        ([EOS], {"distinct_bigrams": 1.0}, 1),  # there is none
    ],
)
def test_what_is_degenerate_teaches_nothing(monkeypatch, chosen, keys, kept):
    model, judge = models()
    monkeypatch.setattr(loss, "generate", lambda *_, **__: forced([chosen]))
    sentence = rows(2).map_tensors(lambda tensor: tensor[1:])
    found = dual(model, judge, sentence, settings(**keys), UNIGRAMS)
    assert found.counts["kept"].item() == kept
    assert (length(gradients(model, found.losses["loss"])) > 0) == bool(kept)


def test_translations_are_drawn_without_dropout_from_what_is_scored(monkeypatch):
    """Of the same encoding: with its dropout, but none of the decoder's."""
    model, judge = models()
    seen, plain = [], loss.generate

    def watched(model, memory, limits_B, steps, **keys):
        seen.append((memory, limits_B.tolist(), steps, keys))
        return plain(model, memory, limits_B, steps, **keys)

    scored, decode = [], model.decode

    def decoded(memory, inputs_BTD, *, dropout=True):
        scored.append((memory, dropout))
        return decode(memory, inputs_BTD, dropout=dropout)

    monkeypatch.setattr(loss, "generate", watched)
    monkeypatch.setattr(model, "decode", decoded)
    torch.manual_seed(1)
    dual(model.train(), judge, rows(2), settings(), UNIGRAMS)
    [(memory, limits, steps, keys)] = seen
    assert (limits, steps) == ([7, 8], 8)
    assert keys == {"decoding": "sampled", "temperature": 1.0, "dropout": False}
    [(_, back), (policy_memory, policy)] = scored
    assert policy_memory is memory
    assert (back, policy) == (True, False)


def test_the_model_is_told_which_languages_it_reads(say, monkeypatch):
    """On the way there that of the sentence, on the way back that of the translation."""
    model, judge = models()
    told, plain = [], model.encode

    def encode(rows_BS, lengths_B, language_B):
        told.append((rows_BS[:, 0].tolist(), language_B.tolist()))
        return plain(rows_BS, lengths_B, language_B)

    monkeypatch.setattr(model, "encode", encode)
    say([SENTENCES[3], SENTENCES[9]])
    dual(model, judge, rows(2), settings(), UNIGRAMS)
    assert told == [([TAGS[1]] * 2, [0, 0]), ([TAGS[0]] * 2, [1, 1])]


# --- advantages ------------------------------------------------------------------------------


def test_advantages_by_each_baseline():
    reward_B, kept_B = torch.tensor([-1.0, -2.0, -6.0, -9.0]), torch.tensor([1.0, 1.0, 1.0, 0.0])
    found = {
        kind: advantages(reward_B, kept_B, settings(baseline=kind)).tolist()
        for kind in ("others", "batch", "none")
    }
    assert found == {
        "others": [3.0, 1.5, -4.5, 0.0],
        "batch": [2.0, 1.0, -3.0, 0.0],
        "none": [-1.0, -2.0, -6.0, 0.0],
    }


def test_two_are_compared_with_each_other():
    reward_B, kept_B = torch.tensor([-1.0, -2.0]), torch.ones(2)
    assert advantages(reward_B, kept_B, settings()).tolist() == [1.0, -1.0]


def test_who_is_alone_learns_nothing_from_a_reward():
    reward_B, kept_B = torch.tensor([-5.0, -1.0]), torch.tensor([1.0, 0.0])
    assert not advantages(reward_B, kept_B, settings()).any()
    assert not advantages(reward_B, torch.zeros(2), settings(advantage_limit=3.0)).any()


def test_advantages_keep_within_their_limit():
    reward_B, kept_B = torch.tensor([*[0.0] * 30, -60.0]), torch.ones(31)
    plain = advantages(reward_B, kept_B, settings())
    limited = advantages(reward_B, kept_B, settings(advantage_limit=3.0))
    most = 3 * plain.square().mean().sqrt()
    assert -plain[-1] > most
    torch.testing.assert_close(limited[-1], -most)
    torch.testing.assert_close(limited[:-1], plain[:-1])
