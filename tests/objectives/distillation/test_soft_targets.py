"""What a teacher finds likely, brought to the places of a batch."""

import numpy as np
import pytest

from accord.data.batches import BatchStream
from accord.data.store import ParallelCorpus, Sentences
from accord.objectives.distillation.soft_targets import LikelyTokens, MadePairs, Targets

LANGUAGES = ("en", "de", "fr")
TAGS = {"en": 2, "de": 3, "fr": 4}
SIZE, EOS = 40, 1
ROUND = Sentences.of([[20, 21], [22], [23, 24, 25]])


def named(sentences, k=3):
    """Likely tokens that can be told apart: the translation's, and those 5 and 10 above it."""
    rows = [[*sentence.tolist(), EOS] for sentence in sentences]
    flat = np.array([token for row in rows for token in row])
    token_MK = ((flat[:, None] + 5 * np.arange(k)) % SIZE).astype(np.uint16)
    share_MK = np.tile(np.array([0.5, 0.3, 0.2][:k], dtype=np.float16), (len(flat), 1))
    share_MK[:, 0] += np.linspace(0, 0.01, len(flat)).astype(np.float16)
    return LikelyTokens(token_MK, share_MK)


LIKELY = named(ROUND)


def test_sentences_are_taken_with_their_ends():
    found = LIKELY.taken(ROUND.offsets, np.array([2, 0]))
    assert found.token_MK[:, 0].tolist() == [23, 24, 25, EOS, 20, 21, EOS]
    assert found.share_MK[:4].tolist() == LIKELY.share_MK[5:9].tolist()
    assert len(LIKELY.taken(ROUND.offsets, np.array([], dtype=np.int64)).token_MK) == 0
    assert LikelyTokens.of([LIKELY, found]).token_MK[9:].tolist() == found.token_MK.tolist()


def batches(gold, translations):
    lines = np.array(translations)
    taken = Sentences.of([ROUND[i].tolist() for i in translations])
    corpus = ParallelCorpus(("de", "fr"), (Sentences.of(gold), taken), (("de", "fr"), ("fr", "de")))
    made = MadePairs(corpus, (None, lines))
    stream = BatchStream([corpus], LANGUAGES, TAGS, batch_tokens=60, seed=1)
    targets = Targets([made], LANGUAGES, LIKELY, ROUND.offsets, SIZE)
    return [stream.batch_at(stream.position)], targets


@pytest.mark.parametrize("part", [(0, 1), (1, 2)])
def test_gold_is_wanted_alone_and_translations_as_the_teacher_sees_them(part):
    (batch,), targets = batches([[30], [31, 32], [33, 34]], [2, 0, 1])
    batch = batch.part(*part)
    found = targets.of(batch)
    assert found.token_BTK.shape == (*batch.target_BT.shape, 3) == found.share_BTK.shape
    np.testing.assert_allclose(found.share_BTK.sum(axis=2), 1, rtol=1e-6)
    assert set(batch.target_language_B.tolist()) == {1, 2}
    for b, length in enumerate(batch.target_lengths_B):
        for t in range(length):
            target, tokens = batch.target_BT[b, t], found.token_BTK[b, t].tolist()
            assert tokens[0] == target
            assert len(set(tokens)) == 3
            if batch.target_language_B[b] == 1:
                assert found.share_BTK[b, t].tolist() == [1, 0, 0]
            else:
                assert tokens[1:] == [(target + 5) % SIZE, (target + 10) % SIZE]
                assert found.share_BTK[b, t, 1] == pytest.approx(0.3, abs=0.01)


def test_each_place_has_its_own_shares():
    (batch,), targets = batches([[30], [31], [32]], [2, 0, 1])
    found = targets.of(batch)
    b = next(b for b in range(batch.rows) if batch.target_BT[b, 0] == 23)
    wanted = LIKELY.share_MK[5:9].astype(np.float32)
    wanted /= wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.share_BTK[b, :4], wanted, rtol=1e-6)
