import itertools
import math

import pytest
import torch

from accord.data.vocabulary import EOS, PAD
from accord.errors import AccordError
from accord.inference.beam_search import BeamSearch, TorchEngine, padded
from accord.inference.cuda_steps import FixedShapes
from accord.inference.ensemble_search import EnsembleSearch
from accord.inference.results import SearchSettings
from accord.inference.scoring import cross_entropies
from search_models import TAGS, V, chain, gnmt, random_sources

CPU = torch.device("cpu")
HALVES = (0.5, 0.5)


def together(model, sources, weights=HALVES, device=CPU, **settings):
    engine = TorchEngine(model, device)
    return EnsembleSearch(engine, SearchSettings(**settings), TAGS, weights)(sources)


def alone(model, sources, **settings):
    return BeamSearch(model, SearchSettings(**settings), torch.tensor(TAGS))(*padded(sources, CPU))


def two_sources(count, seed=1):
    """Different sentences of different lengths that ask for the same language."""
    one, other = random_sources(count, seed), random_sources(count, seed + 100)
    return [one, [[row[0], *more[1:]] for row, more in zip(one, other, strict=True)]]


def assert_same(one, two, tolerance=1e-9):
    for mine, theirs in zip(one, two, strict=True):
        assert [item.ids for item in mine] == [item.ids for item in theirs]
        assert [item.alignment for item in mine] == [item.alignment for item in theirs]
        scores = [item.score for item in theirs]
        assert [item.score for item in mine] == pytest.approx(scores, abs=tolerance)


@pytest.mark.parametrize(("beam", "ngram"), [(1, 0), (4, 0), (3, 2)])
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.2, 0.3, 0.5)])
def test_the_same_source_several_times_is_the_single_search(beam, ngram, weights):
    settings = {"beam": beam, "nbest": beam, "no_repeat_ngram": ngram}
    model, sources = gnmt(3, ends=1.4), random_sources(17)
    found = together(model, [sources] * len(weights), weights, **settings)
    assert_same(found, alone(model, sources, **settings))


def test_a_source_of_weight_0_is_not_read():
    model, (one, other) = gnmt(2, ends=1.3), two_sources(12)
    assert_same(together(model, [one, other], (1, 0), beam=3), alone(model, one, beam=3))
    assert_same(together(model, [one, other], (0, 2), beam=3), alone(model, other, beam=3))
    mixed = together(model, [one, other], beam=3)
    assert {row[0].ids for row in mixed} != {row[0].ids for row in alone(model, one, beam=3)}


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.8, 0.2)])
def test_a_wide_beam_finds_what_is_best_by_the_mean_over_the_sources(alpha, weights):
    model, sources, limit = gnmt(5, ends=1.2), ([2, 7, 9, EOS], [2, 11, 4, 6, 5, EOS]), 3
    usable = [i for i in range(V) if i not in (PAD, EOS, *TAGS)][:6]
    banned = torch.tensor([i for i in range(V) if i not in usable])
    every = [s for n in range(limit + 1) for s in itertools.product(usable, repeat=n)]
    targets = [[*ids, EOS] for ids in every]
    nll = [cross_entropies(model, [source] * len(every), targets, device=CPU) for source in sources]
    mean = [weights[0] * a + weights[1] * b for a, b in zip(*nll, strict=True)]
    scored = sorted(
        ((-x / ((5 + len(ids) + 1) / 6) ** alpha, ids) for x, ids in zip(mean, every, strict=True)),
        reverse=True,
    )
    settings = SearchSettings(beam=len(usable) ** limit, nbest=20, length_penalty=alpha)
    wide = BeamSearch(model, settings, banned, weights=weights)
    [found] = wide(*padded(sources, CPU), torch.tensor([limit]))
    assert [item.ids for item in found[:20]] == [ids for _, ids in scored[:20]]
    expected = [score for score, _ in scored[:20]]
    assert [item.score for item in found[:20]] == pytest.approx(expected, abs=1e-9)
    single = [ids for _, ids in sorted(zip(nll[0], every, strict=True))][:20]
    assert single != [ids for _, ids in scored[:20]]  # or the second source would show nothing


def test_scores_are_the_mean_of_the_model_s_own():
    model, sources = gnmt(4, ends=1.3), two_sources(15)
    for i, items in enumerate(together(model, sources, (0.7, 0.3), beam=4, nbest=4)):
        targets = [[*item.ids, EOS] for item in items]
        one, other = (
            cross_entropies(model, [rows[i]] * len(items), targets, device=CPU) for rows in sources
        )
        expected = [-0.7 * a - 0.3 * b for a, b in zip(one, other, strict=True)]
        assert [item.log_probability for item in items] == pytest.approx(expected, abs=1e-9)


@torch.no_grad()
def greedy(model, sources):
    """The token that is likeliest on average, again and again, all sources read anew each time."""
    ids = []
    longest = 2 * (max(map(len, sources)) - 2) + 50
    while len(ids) < longest:
        mean_V = torch.zeros(V, dtype=torch.float64)
        for source in sources:
            memory = model.encode(torch.tensor([source]), torch.tensor([len(source)]))
            inputs = model.shifted_embeddings(torch.tensor([[*ids, PAD]]))
            logits = model.logits(model.decode(memory, inputs))[0, -1]
            mean_V += logits.log_softmax(0) / len(sources)
        mean_V[[PAD, *TAGS]] = -math.inf
        token = int(mean_V.argmax())
        if token == EOS:
            break
        ids.append(token)
    return tuple(ids)


def test_beam_1_is_greedy_search_by_the_mean():
    model, sources = gnmt(2, ends=1.5), two_sources(8)
    expected = [greedy(model, both) for both in zip(*sources, strict=True)]
    assert [row[0].ids for row in together(model, sources, beam=1)] == expected
    assert len({len(ids) for ids in expected}) > 2


@pytest.mark.parametrize("beam", [1, 4])
def test_results_depend_neither_on_batch_nor_order_nor_padding(beam):
    model, sources = gnmt(3, ends=1.4), two_sources(24)
    whole = together(model, sources, beam=beam)
    turned = [rows[::-1] for rows in sources]
    assert_same(together(model, turned, beam=beam)[::-1], whole)
    single = [together(model, [[a], [b]], beam=beam)[0] for a, b in zip(*sources, strict=True)]
    assert_same(single, whole)
    assert_same(together(model, sources, beam=beam, batch_tokens=40), whole)
    lengths = [len(row[0].ids) for row in whole]
    assert max(lengths) > 4 * min(lengths)  # rows were put aside


def test_fixed_shapes_change_no_result(monkeypatch):
    monkeypatch.setattr("accord.inference.cuda_steps._LEAST_ROWS", 2)
    model, sources = gnmt(3, ends=1.4), two_sources(37)
    for beam, ngram in ((1, 0), (3, 2)):
        settings = {"beam": beam, "nbest": beam, "no_repeat_ngram": ngram}
        made = EnsembleSearch(TorchEngine(model, CPU), SearchSettings(**settings), TAGS, (0.6, 0.4))
        made._search._shapes = FixedShapes(made._search._advance, record=lambda step: step)
        for count in (37, 20, 37):  # buffers are used again
            some = [rows[:count] for rows in sources]
            assert_same(made(some), together(model, some, (0.6, 0.4), **settings))


def test_alignment_is_with_the_first_source():
    model, (one, other) = gnmt(7, ends=1.2), two_sources(20)
    found = together(model, [one, other], beam=3)
    for source, items in zip(one, found, strict=True):
        assert len(items[0].alignment) == len(items[0].ids)
        assert all(0 <= place < len(source) for place in items[0].alignment)
    turned = together(model, [other, one], beam=3)
    assert [row[0].ids for row in turned] == [row[0].ids for row in found]
    assert [row[0].alignment for row in turned] != [row[0].alignment for row in found]


def test_the_longest_source_limits_the_length():
    endless = chain(start={4: 1 - 1e-9, EOS: 1e-9}, t4={4: 1 - 1e-9, EOS: 1e-9})
    [found] = together(endless, [[[2, EOS]], [[2, 7, 8, 9, EOS]]], beam=1)
    assert len(found[0].ids) == 56


def test_a_token_that_one_source_rules_out_is_ruled_out():
    sure = chain(start={4: 0.5, 5: 0.5})
    assert {item.ids for item in alone(sure, [[2, 5, EOS]], beam=3, nbest=3)[0]} == {(4,), (5,)}
    step = sure.step

    def one_sided(memory, state, input_BD, *, dropout=True):
        hidden, after = step(memory, state, input_BD)
        hidden = hidden.clone()
        hidden[len(hidden) // 2 :, 4] = -math.inf  # what the second source says
        return hidden, after

    sure.step = one_sided
    [found] = together(sure, [[[2, 5, EOS]], [[2, 6, EOS]]], beam=3, nbest=3)
    assert [item.ids for item in found] == [(5,)]


@pytest.mark.parametrize("weights", [(0.5, -0.1), (0, 0), (math.nan, 1)])
def test_weights_are_checked(weights):
    with pytest.raises(AccordError, match="weights of an ensemble"):
        together(gnmt(1), two_sources(1), weights)


@pytest.mark.gpu
@pytest.mark.parametrize("beam", [1, 4])
def test_graphs_give_what_single_steps_give(beam):
    cuda = torch.device("cuda")
    model, cpu = gnmt(3, ends=1.4).cuda(), gnmt(3, ends=1.4)
    for count, seed in ((300, 1), (70, 2), (1, 3)):
        sources = two_sources(count, seed)
        found = together(model, sources, (0.6, 0.4), cuda, beam=beam)
        assert_same(found, together(cpu, sources, (0.6, 0.4), beam=beam), 1e-6)
