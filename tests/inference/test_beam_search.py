import itertools
import math

import pytest
import torch

from accord.data.vocabulary import EOS, PAD
from accord.inference.backtrace import Found
from accord.inference.beam_search import BeamSearch, padded
from accord.inference.cuda_steps import EagerStepper, FixedShapes
from accord.inference.results import SearchSettings
from accord.inference.scoring import cross_entropies
from search_models import TAGS, V, chain, gnmt, plain_search, random_sources

CPU = torch.device("cpu")
FORBIDDEN = torch.tensor(TAGS)
MODELS = [(1, 1.0, False), (1, 1.5, True), (2, 1.5, False), (2, 1.2, True)]
every_model = pytest.mark.parametrize(("seed", "ends", "feeding"), MODELS)


def search(model, sources, limits=None, **settings) -> list[list[Found]]:
    made = BeamSearch(model, SearchSettings(**settings), FORBIDDEN)
    return made(*padded(sources, CPU), None if limits is None else torch.tensor(limits))


def best(found) -> list[tuple[int, ...]]:
    return [row[0].ids for row in found]


def greedy(model, source) -> tuple[int, ...]:
    """The likeliest token, again and again, with a look back at nothing."""
    ids: list[int] = []
    memory = model.encode(torch.tensor([source]), torch.tensor([len(source)]))
    while len(ids) < 2 * (len(source) - 2) + 50:
        inputs = model.shifted_embeddings(torch.tensor([[*ids, PAD]]))
        logits = model.logits(model.decode(memory, inputs))[0, -1]
        logits[[PAD, *TAGS]] = -math.inf
        token = int(logits.argmax())
        if token == EOS:
            break
        ids.append(token)
    return tuple(ids)


@every_model
def test_beam_1_is_greedy_search(seed, ends, feeding):
    model, sources = gnmt(seed, ends=ends, feeding=feeding), random_sources(8)
    with torch.no_grad():
        expected = [greedy(model, source) for source in sources]
    assert best(search(model, sources, beam=1)) == expected
    assert len({len(ids) for ids in expected}) > 2  # or the test would show little


@every_model
@pytest.mark.parametrize("beam", [2, 4])
def test_a_batch_of_mixed_tags_gives_what_a_plain_search_of_each_sentence_gives(
    seed, ends, feeding, beam
):
    model, sources = gnmt(seed, ends=ends, feeding=feeding), random_sources(9, seed)
    for source, found in zip(sources, search(model, sources, beam=beam), strict=True):
        ids, log_p = plain_search(model, source, beam=beam)[0]
        assert list(found[0].ids) == ids
        assert found[0].log_probability == pytest.approx(log_p, abs=1e-9)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_depend_neither_on_batch_nor_order_nor_padding(beam, dtype):
    model, sources = gnmt(3, ends=1.4).to(dtype), random_sources(24)
    whole = search(model, sources, beam=beam)
    alone = [search(model, [source], beam=beam)[0] for source in sources]
    turned = search(model, sources[::-1], beam=beam)[::-1]
    source_BS, lengths_B = padded(sources, CPU)
    wider_BS = torch.nn.functional.pad(source_BS, (0, 7), value=PAD)
    wider = BeamSearch(model, SearchSettings(beam=beam), FORBIDDEN)(wider_BS, lengths_B)
    for other in (alone, turned, wider):
        assert best(other) == best(whole)
        for one, two in zip(other, whole, strict=True):
            assert one[0].score == pytest.approx(two[0].score, abs=1e-5)
            assert one[0].alignment == two[0].alignment
    assert max(map(len, best(whole))) > 4 * min(map(len, best(whole)))  # rows were put aside


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_wide_beam_finds_the_best_of_all_sequences(alpha):
    model, source, limit = gnmt(5, ends=1.2), [2, 7, 9, EOS], 3
    usable = [i for i in range(V) if i not in (PAD, EOS, *TAGS)][:6]
    banned = torch.tensor([i for i in range(V) if i not in usable])
    every = [s for n in range(limit + 1) for s in itertools.product(usable, repeat=n)]
    targets = [[*ids, EOS] for ids in every]
    nll = cross_entropies(model, [source] * len(every), targets, device=CPU)
    scored = sorted(
        ((-x / ((5 + len(ids) + 1) / 6) ** alpha, ids) for x, ids in zip(nll, every, strict=True)),
        reverse=True,
    )
    settings = SearchSettings(beam=len(usable) ** limit, nbest=20, length_penalty=alpha)
    wide = BeamSearch(model, settings, banned)
    found = wide(*padded([source], CPU), torch.tensor([limit]))[0]
    assert [item.ids for item in found[:20]] == [ids for _, ids in scored[:20]]
    expected = [score for score, _ in scored[:20]]
    assert [item.score for item in found[:20]] == pytest.approx(expected, abs=1e-9)


def test_scores_are_the_model_s_own():
    model, sources = gnmt(4, ends=1.3), random_sources(15)
    found = search(model, sources, beam=4, nbest=4)
    for source, items in zip(sources, found, strict=True):
        targets = [[*item.ids, EOS] for item in items]
        nll = cross_entropies(model, [source] * len(items), targets, device=CPU)
        assert [-item.log_probability for item in items] == pytest.approx(nll, abs=1e-9)


# a (4) ends at once with 0.4; b (5) c d e end after three more certain tokens with 0.36.
HAND = {
    "start": {4: 0.4, 5: 0.36, 9: 0.24},
    "t5": {6: 1.0},
    "t6": {7: 1.0},
    "t7": {8: 1.0},
}


def test_length_penalty_by_hand():
    [plain] = search(chain(**HAND), [[2, 5, EOS]], beam=3, length_penalty=0.0, nbest=2)
    assert plain[0].ids == (4,)
    assert plain[0].score == pytest.approx(math.log(0.4))
    [longer] = search(chain(**HAND), [[2, 5, EOS]], beam=3, length_penalty=0.6, nbest=2)
    assert [item.ids for item in longer[:2]] == [(5, 6, 7, 8), (4,)]
    assert longer[0].score == pytest.approx(math.log(0.36) / (10 / 6) ** 0.6)  # 5 with the end
    assert longer[1].score == pytest.approx(math.log(0.4) / (7 / 6) ** 0.6)
    assert longer[0].log_probability == pytest.approx(math.log(0.36))


def test_search_ends_when_nothing_can_be_overtaken(monkeypatch):
    steps = []
    step = EagerStepper.step
    monkeypatch.setattr(EagerStepper, "step", lambda self: (steps.append(1), step(self))[1])
    certain = chain(start={4: 0.999, 5: 0.001}, t5={5: 1.0}, t4={EOS: 0.99, 5: 0.01})
    [found] = search(certain, [[2, 5, EOS]], beam=2)
    assert found[0].ids == (4,)
    assert len(steps) == 2  # not 52
    steps.clear()
    # The rest of the beam may still win by its length, so the search must go on to see.
    likely = chain(start={4: 0.4, 5: 0.6}, t5={5: 0.99, EOS: 0.01})
    [found] = search(likely, [[2, 5, EOS]], beam=2, length_penalty=1.0)
    assert len(found[0].ids) > 40


@pytest.mark.parametrize("beam", [1, 3])
def test_the_longest_translation_has_2n_plus_50_tokens(beam):
    endless = chain(start={4: 1 - 1e-9, EOS: 1e-9}, t4={4: 1 - 1e-9, EOS: 1e-9})
    sources = [[2, EOS], [3, 7, 8, 9, EOS]]
    assert list(map(len, best(search(endless, sources, beam=beam)))) == [50, 56]
    assert list(map(len, best(search(endless, sources, beam=beam, limits=[0, 3])))) == [0, 3]


@pytest.mark.parametrize("beam", [1, 4])
def test_tags_and_padding_are_never_generated(beam):
    wanting = dict.fromkeys(TAGS, 0.45) | {PAD: 0.09, 4: 0.009, EOS: 0.001}
    model = chain(start=wanting, t4=wanting)
    [found] = search(model, [[2, 5, 6, EOS]], beam=beam, nbest=beam)
    assert found
    assert all(i == 4 for item in found for i in item.ids)


@pytest.mark.parametrize("ngram", [1, 2, 3])
@pytest.mark.parametrize("beam", [1, 3])
def test_no_ngram_is_repeated(ngram, beam):
    model, sources = gnmt(2, ends=0.9), random_sources(8)

    def repeated(ids) -> bool:
        grams = [ids[i : i + ngram] for i in range(len(ids) - ngram + 1)]
        return len(set(grams)) < len(grams)

    assert any(map(repeated, best(search(model, sources, beam=beam))))
    found = best(search(model, sources, beam=beam, no_repeat_ngram=ngram))
    assert not any(map(repeated, found))
    plain = [plain_search(model, s, beam=beam, ngram=ngram)[0][0] for s in sources]
    assert list(map(list, found)) == plain


def test_an_ngram_longer_than_any_translation_is_no_restriction():
    model, sources = gnmt(2), random_sources(4)
    assert search(model, sources, no_repeat_ngram=500) == search(model, sources)


def test_nbest_is_sorted_and_distinct():
    for found in search(gnmt(6, ends=1.3), random_sources(10), beam=6, nbest=5):
        assert len(found) >= 5
        assert len({item.ids for item in found}) == len(found)
        scores = [item.score for item in found]
        assert scores == sorted(scores, reverse=True)


def test_alignment_follows_the_attention():
    [found] = search(chain(**HAND), [[2, 5, 6, 7, 8, 9, EOS]], beam=3)
    assert found[0].alignment == (1, 2, 3, 4)
    sources = random_sources(10)
    for source, items in zip(sources, search(gnmt(7), sources, nbest=4), strict=True):
        for item in items:
            assert len(item.alignment) == len(item.ids)
            assert all(0 <= place < len(source) for place in item.alignment)


def test_weights_that_are_not_finite_end_the_search():
    model = gnmt(1)
    with torch.no_grad():
        model.target_embedding.weight.fill_(math.nan)
    assert search(model, [[2, 5, EOS]]) == [[]]


def test_fixed_shapes_change_no_result(monkeypatch):
    monkeypatch.setattr("accord.inference.cuda_steps._LEAST_ROWS", 2)
    rows = []

    class Noting(FixedShapes):
        def load(self, task, beam):
            rows.append(len(beam.done_B))
            return super().load(task, beam)

    model, sources = gnmt(3, ends=1.4), random_sources(37)
    for beam, ngram in ((1, 0), (3, 2)):
        settings = {"beam": beam, "nbest": beam, "no_repeat_ngram": ngram}
        made = BeamSearch(model, SearchSettings(**settings), FORBIDDEN)
        made._shapes = Noting(made._advance, record=lambda step: step)
        for some in (sources, sources[:20], sources):  # buffers are used again
            assert_same(made(*padded(some, CPU)), search(model, some, **settings))
    assert rows[0] == 64
    assert set(rows) >= {64, 32, 16}


@pytest.mark.gpu
@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("ngram", [0, 2])
def test_graphs_give_what_single_steps_give(feeding, beam, ngram):
    model = gnmt(3, ends=1.4, feeding=feeding).cuda()
    settings = SearchSettings(beam=beam, nbest=beam, no_repeat_ngram=ngram)
    graphed = BeamSearch(model, settings, FORBIDDEN.cuda())
    eager = BeamSearch(model, settings, FORBIDDEN.cuda(), graphs=False)
    for count, seed in ((300, 1), (70, 2), (1, 3), (300, 4)):
        batch = padded(random_sources(count, seed), CPU)
        assert_same(graphed(*batch), eager(*batch))
    with torch.no_grad():  # recorded steps must see weights that have changed meanwhile
        for parameter in model.parameters():
            parameter.mul_(0.9)
    batch = padded(random_sources(300, 5), CPU)
    assert_same(graphed(*batch), eager(*batch))


@pytest.mark.gpu
@pytest.mark.parametrize("beam", [1, 4])
def test_graphs_are_given_up_and_recorded_anew_where_batches_get_larger(beam):
    model = gnmt(3, ends=1.4).cuda()
    settings = SearchSettings(beam=beam, nbest=beam)
    graphed = BeamSearch(model, settings, FORBIDDEN.cuda())
    eager = BeamSearch(model, settings, FORBIDDEN.cuda(), graphs=False)
    for seed, count in enumerate((1, 70, 300, 70, 1, 600, 20)):
        batch = padded(random_sources(count, seed), CPU)
        assert_same(graphed(*batch), eager(*batch))


def assert_same(one, two) -> None:
    for mine, theirs in zip(one, two, strict=True):
        assert [item.ids for item in mine] == [item.ids for item in theirs]
        assert [item.alignment for item in mine] == [item.alignment for item in theirs]
        scores = [item.score for item in theirs]
        assert [item.score for item in mine] == pytest.approx(scores, abs=1e-9)


@pytest.mark.gpu
def test_graphs_in_bf16_score_as_single_steps_do():
    model = gnmt(3, ends=1.4).float().cuda()
    settings = SearchSettings(beam=1)
    batch = padded(random_sources(200), CPU)
    with torch.autocast("cuda", torch.bfloat16):
        graphed = BeamSearch(model, settings, FORBIDDEN.cuda())(*batch)
        eager = BeamSearch(model, settings, FORBIDDEN.cuda(), graphs=False)(*batch)
    same = sum(a[0].ids == b[0].ids for a, b in zip(graphed, eager, strict=True))
    assert same > 0.9 * len(eager)
