"""Rounds on disk, in parts, and as corpora to train on."""

import json
from dataclasses import replace

import numpy as np
import pytest

from accord.config.third_languages import Triads
from accord.data.store import ParallelCorpus, Sentences
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.objectives.distillation.filters import FATES
from accord.objectives.distillation.rounds import Origins, Round, merged, taken
from accord.objectives.distillation.soft_targets import LikelyTokens

LANGUAGES = ("en", "de", "es", "fr")
GRAPH = TranslationGraph(
    LANGUAGES,
    frozenset(Direction(*d) for x in LANGUAGES[1:] for d in (("en", x), (x, "en"))),
)
GOLD = [
    ParallelCorpus(
        ("en", other),
        (Sentences.of([[10 * c], [10 * c + 1]]), Sentences.of([[100 + c], [200 + c, 201 + c]])),
        (("en", other),),
    )
    for c, other in enumerate(("de", "es"))
]


def facts(**keys):
    fates = dict.fromkeys(FATES, 0) | {"kept": 3}
    return {"round": 4, "pairs": 5, "fates": fates, "source_tokens": 10, "target_tokens": 12,
            "seconds": 1.5, **keys}  # fmt: skip


def a_round(rows, sentences, **keys):
    """Rows are place, corpus, line, side, language."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return Round(Origins(*columns), Sentences.of(sentences), facts(**keys))


ROUND = a_round(
    [(0, 0, 1, 0, 2), (0, 0, 1, 0, 3), (1, 1, 0, 0, 3), (2, 0, 0, 0, 3)],
    [[7, 8], [9], [5, 5, 5], [6]],
)


def with_likely(made):
    """Each place names its own token, and the one above it."""
    flat = np.concatenate([[*row.tolist(), 1] for row in made.sentences])
    token_MK = np.stack([flat, flat + 1], axis=1).astype(np.uint16)
    share_MK = np.stack([1 - flat / 20, flat / 20], axis=1).astype(np.float16)
    return replace(made, likely=LikelyTokens(token_MK, share_MK))


def same(one, other):
    assert one.facts == other.facts
    assert (one.likely is None) == (other.likely is None)
    if one.likely is not None:
        assert (one.likely.token_MK == other.likely.token_MK).all()
        assert (one.likely.share_MK == other.likely.share_MK).all()
    assert [row.tolist() for row in one.sentences] == [row.tolist() for row in other.sentences]
    for name, column in vars(one.origins).items():
        assert (column == getattr(other.origins, name)).all()


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "pool" / "round-000004.npz"
    ROUND.save(path)
    found = Round.load(path)
    same(found, ROUND)
    assert found.sentences.ids.dtype == np.uint16
    assert len(found) == 4
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_what_the_teacher_found_likely_is_written_too(tmp_path):
    made = with_likely(ROUND)
    made.save(tmp_path / "round.npz")
    found = Round.load(tmp_path / "round.npz")
    same(found, made)
    assert (found.likely.token_MK.dtype, found.likely.share_MK.dtype) == (np.uint16, np.float16)


@pytest.mark.parametrize("damage", ["gone", "cut", "empty", "flipped"])
def test_a_damaged_round_is_no_round(tmp_path, damage):
    path = tmp_path / "round.npz"
    ROUND.save(path)
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "flipped":
        data[data.index(bytes([7, 0, 8, 0]))] ^= 1
        path.write_bytes(data)
    else:
        path.write_bytes(data[: len(data) // 2 if damage == "cut" else 0])
    assert Round.load(path) is None


def test_no_single_bit_can_change_a_round(tmp_path):
    path = tmp_path / "round.npz"
    ROUND.save(path)
    data = path.read_bytes()
    for place in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place // 5) % 8
        path.write_bytes(damaged)
        found = Round.load(path)
        if found is not None:  # some bytes mean nothing, such as dates
            same(found, ROUND)


def pairs(found):
    """Every example: direction, source, target."""
    return sorted(
        (str(Direction(*d)), corpus.side(d[0])[i].tolist(), corpus.side(d[1])[i].tolist())
        for corpus in (made.corpus for made in found)
        for d in corpus.directions
        for i in range(len(corpus))
    )


def test_pairs_of_each_part():
    distilled = [
        ("de-es", [200, 201], [7, 8]),
        ("de-fr", [100], [6]),
        ("de-fr", [200, 201], [9]),
        ("es-fr", [101], [5, 5, 5]),
    ]
    assert pairs(ROUND.pairs(GOLD, Triads(GRAPH, ["distillation"]))) == distilled
    back = sorted((f"{d[3:]}-{d[:2]}", target, source) for d, source, target in distilled)
    assert pairs(ROUND.pairs(GOLD, Triads(GRAPH, ["back-translation"]))) == back
    both = ROUND.pairs(GOLD, Triads(GRAPH, ["distillation", "back-translation"]))
    assert pairs(both) == sorted(distilled + back)
    assert len(both) == 3
    latent = pairs(ROUND.pairs(GOLD, Triads(GRAPH, ["latent"])))
    assert latent == [("es-fr", [7, 8], [9]), ("fr-es", [9], [7, 8])]


def test_translations_also_return_to_the_sentences_they_were_made_from():
    there = Triads(GRAPH, ["distillation"])
    back = Triads(GRAPH, ["distillation", "round-trip"])
    returned = [
        ("es-en", [7, 8], [1]),
        ("fr-en", [5, 5, 5], [10]),
        ("fr-en", [6], [0]),
        ("fr-en", [9], [1]),
    ]
    assert pairs(ROUND.pairs(GOLD, back)) == sorted(pairs(ROUND.pairs(GOLD, there)) + returned)
    only = Triads(GRAPH, ["distillation", "round-trip"], [Direction("de", "fr")])
    assert {direction for direction, _, _ in pairs(ROUND.pairs(GOLD, only))} == {"de-fr"}


def test_each_line_knows_its_translation():
    every = Triads(GRAPH, ["distillation", "latent", "round-trip"])
    for made in ROUND.pairs(GOLD, every):
        for side, rows in zip(made.corpus.sides, made.translations, strict=True):
            if rows is None:
                assert made.corpus.languages[0] in ("de", "es", "en")
                assert side is made.corpus.sides[0]
            else:
                theirs = [ROUND.sentences[i].tolist() for i in rows]
                assert [line.tolist() for line in side] == theirs


def test_where_one_of_two_translations_was_dropped_there_is_no_latent_pair():
    alone = a_round([(0, 0, 1, 0, 2), (1, 0, 0, 0, 3)], [[7, 8], [9]])
    with pytest.raises(AccordError):
        alone.pairs(GOLD, Triads(GRAPH, ["latent"]))


def test_nothing_kept_says_what_dropped_it():
    counts = dict.fromkeys(FATES, 0) | {"length_ratio": 1234, "distinct_bigrams": 2}
    with pytest.raises(AccordError, match="round 4: length_ratio 1,234, distinct_bigrams 2") as e:
        a_round([], [], fates=counts).pairs(GOLD, Triads(GRAPH, ["distillation"]))
    assert "start" in e.value.fix


@pytest.mark.parametrize("more", [lambda made: made, with_likely], ids=["plain", "likely"])
def test_shares_of_processes_become_one_round(more):
    shares = [
        a_round([(0, 0, 1, 0, 2), (0, 0, 1, 0, 3), (2, 0, 0, 0, 3)], [[7, 8], [9], [6]]),
        a_round([(1, 1, 0, 0, 3)], [[5, 5, 5]], seconds=2.5, target_tokens=4),
    ]
    whole = merged([more(share) for share in shares])
    same(whole, more(Round(ROUND.origins, ROUND.sentences, whole.facts)))
    assert whole.facts["seconds"] == 2.5
    assert whole.facts["target_tokens"] == 16
    assert whole.facts["fates"]["kept"] == 6
    assert whole.facts["pairs"] == 10
    json.dumps(whole.facts)


def test_lines_are_taken_in_any_order():
    sentences = Sentences.of([[1, 2], [], [3], [4, 5, 6]])
    found = taken(sentences, np.array([3, 1, 0, 3]))
    assert [row.tolist() for row in found] == [[4, 5, 6], [], [1, 2], [4, 5, 6]]
    assert len(taken(sentences, np.array([], dtype=np.int64))) == 0
