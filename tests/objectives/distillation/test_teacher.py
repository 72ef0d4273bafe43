"""The teacher translates and scores as the model says, in whatever batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from accord.config.objectives import CompleteSearch
from accord.data.vocabulary import Vocabulary, train
from accord.graph import Direction
from accord.inference.scoring import cross_entropies
from accord.models.gnmt import GNMT
from accord.objectives.distillation.teacher import Cancelled, Teacher, Wanted

CPU = torch.device("cpu")
LANGUAGES = ("en", "de", "fr")


@pytest.fixture(scope="module")
def vocabulary():
    words = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    return Vocabulary(train(words * 3, LANGUAGES, 320), LANGUAGES)


def teacher(words, seed=1, vote=0.0, counts=None, stopped=lambda: False, **search):
    torch.manual_seed(seed)
    model = GNMT(len(words), 12, encoder_layers=1, decoder_layers=2, dropout=0.5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8.0)  # opinions strong enough to differ from source to source
    return Teacher(
        model, words, CPU, CompleteSearch(**search), vote=vote, token_counts=counts,
        stopped=stopped,
    )  # fmt: skip


def wanted(vocabulary, count=40, limit=9):
    draw = np.random.default_rng(3)
    first = len(vocabulary) - 60
    rows = [draw.integers(first, first + 50, draw.integers(1, 12)).tolist() for _ in range(count)]
    return [
        Wanted(row, rows[-i], ("en", "de"), ("de", "fr")[i % 2], limit)
        for i, row in enumerate(rows, start=1)
    ]


def test_each_sentence_gets_its_own_translation(vocabulary):
    one = teacher(vocabulary, batch_tokens=64)
    asked = wanted(vocabulary)
    together = one.translate(asked)
    alone = [one.translate([item])[0] for item in asked]
    assert [found[0].ids for found in together] == [found[0].ids for found in alone]
    assert len({found[0].ids for found in together}) > 20
    assert all(len(found[0].ids) <= 9 for found in together)


def test_more_translations_where_more_are_asked_for(vocabulary):
    found = teacher(vocabulary, beam=3, nbest=2).translate(wanted(vocabulary, 5))
    assert all(len(each) >= 2 for each in found)
    assert all(each[0].score >= each[1].score for each in found)


def test_probabilities_are_those_of_the_search_and_of_teacher_forcing(vocabulary):
    one = teacher(vocabulary)
    asked = wanted(vocabulary)
    found = [each[0] for each in one.translate(asked)]
    scores = one.log_probabilities(
        [item.source for item in asked],
        [Direction("en", item.language) for item in asked],
        [each.ids for each in found],
    )
    assert scores == pytest.approx([each.log_probability for each in found], rel=1e-4)
    row = [vocabulary.tags["de"], *asked[1].source, 1]
    forced = cross_entropies(one.model, [row], [[*found[1].ids, 1]], device=CPU)
    assert asked[1].language == "de"
    assert -forced[0] == pytest.approx(scores[1], rel=1e-5)


def test_the_other_sentence_has_a_vote(vocabulary):
    asked = wanted(vocabulary)
    turned = [replace(item, source=item.pupil, pupil=item.source) for item in asked]

    def said(vote, items):
        return [each[0].ids for each in teacher(vocabulary, vote=vote).translate(items)]

    alone, half = said(0.0, asked), said(0.5, asked)
    assert alone != half
    assert half == said(0.5, turned)  # both have the same weight
    assert said(1.0, asked) == said(0.0, turned)


def distributions(one, item, source, chosen):
    """P at every place of a translation, literally."""
    row = torch.tensor([[one.tags[item.language], *source, 1]])
    target = torch.tensor([[*chosen, 1]])
    with torch.no_grad():
        memory = one.model.encode(row, torch.tensor([row.shape[1]]))
        hidden = one.model.decode(memory, one.model.shifted_embeddings(target))
        return one.model.logits(hidden[0]).log_softmax(dim=1)


@pytest.mark.parametrize("vote", [0.0, 0.4])
def test_the_likeliest_tokens_at_every_place(vocabulary, vote):
    one = teacher(vocabulary, vote=vote)
    asked = wanted(vocabulary)
    chosen = [each[0].ids for each in one.translate(asked)]
    found = one.likely(asked, chosen, 4)
    assert len(found.token_MK) == sum(len(ids) + 1 for ids in chosen)
    begin = 0
    for item, ids in zip(asked, chosen, strict=True):
        log_p = (1 - vote) * distributions(one, item, item.source, ids)
        log_p += vote * distributions(one, item, item.pupil, ids)
        log_p[:, one.decoder.forbidden(None)] = -torch.inf
        top = log_p.topk(4, dim=1)
        part = slice(begin, begin + len(ids) + 1)
        assert found.token_MK[part].tolist() == top.indices.tolist()
        shares = torch.from_numpy(found.share_MK[part]).float()
        torch.testing.assert_close(shares, top.values.softmax(dim=1), rtol=2e-3, atol=1e-4)
        # Greedy search takes the likeliest, but for the end where the length is up.
        assert found.token_MK[part][: len(ids), 0].tolist() == list(ids)
        begin += len(ids) + 1
    assert one.likely([], [], 4).token_MK.shape == (0, 4)


def test_subwords_may_be_restricted_to_the_language(vocabulary):
    allowed = {"de": np.zeros(len(vocabulary)), "fr": np.ones(len(vocabulary))}
    allowed["de"][-20:] = 1
    one = teacher(vocabulary, counts=allowed.__getitem__, vocabulary="target")
    asked = wanted(vocabulary)
    for item, found in zip(asked, one.translate(asked), strict=True):
        if item.language == "de":
            assert all(i >= len(vocabulary) - 20 for i in found[0].ids)
            likely = one.likely([item], [found[0].ids], 5).token_MK
            assert all(i == 1 or i >= len(vocabulary) - 20 for i in likely.flatten())
    assert any(len(found[0].ids) for found in one.translate(asked))


def test_it_gives_up_when_told_to(vocabulary):
    left = 2

    def stopped():
        nonlocal left
        left -= 1
        return left < 0

    with pytest.raises(Cancelled):
        teacher(vocabulary, batch_tokens=32, stopped=stopped).translate(wanted(vocabulary))


def test_it_learns_nothing_and_drops_nothing(vocabulary):
    one = teacher(vocabulary)
    assert not one.model.training
    assert not any(parameter.requires_grad for parameter in one.model.parameters())
    before = torch.get_rng_state()
    one.translate(wanted(vocabulary, 3))
    assert torch.equal(torch.get_rng_state(), before)
