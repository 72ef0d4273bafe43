"""What a store promises is proved on reading it back: every breach, be it of a single line."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import accord.data.verify as module
from accord.data.dedup import HashedCorpus, hash_lines
from accord.data.store import Sentences
from accord.data.verify import verify
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.progress import Silent

PAIRS = (("en", "de"), ("en", "fr"), ("en", "es"))
BOTH_WAYS = frozenset(Direction(*x) for pair in PAIRS for x in (pair, pair[::-1]))
STAR = TranslationGraph(("en", "de", "fr", "es"), BOTH_WAYS)
LINES = {
    ("en", "de"): (["one", "two", "three"], ["eins", "zwei", "drei"]),
    ("en", "fr"): (["four", "five"], ["quatre", "cinq"]),
    ("en", "es"): (["six"], ["seis"]),
}


class Words:
    """A vocabulary whose subwords are whole lines."""

    def __init__(self):
        self.lines = []

    def add(self, lines):
        self.lines += lines
        ids = np.arange(len(self.lines) - len(lines), len(self.lines), dtype=np.int32)
        return Sentences(ids, np.arange(len(lines) + 1, dtype=np.int64))

    def decode(self, rows, threads):
        return [self.lines[number] for (number,) in rows]


@dataclass
class Corpus:
    name: str
    languages: tuple[str, str]
    sides: list[Sentences]

    def __len__(self):
        return len(self.sides[0])


class Steps(Silent):
    def __init__(self):
        self.seen = []

    def start(self, what, total=None):
        self.seen.append((what, total))

    def reach(self, done):
        self.seen.append(done)


def check(lines=LINES, held_out=(), mode="disjoint", pairs=(), cleaned=None, progress=None):
    """Verify a store of these lines, whose dev set has `held_out`: pairs of language and line."""
    words = Words()
    corpora = [
        Corpus("-".join(pair), pair, [words.add(side) for side in sides])
        for pair, sides in lines.items()
    ]
    dev = [
        SimpleNamespace(languages=[language], lines=lambda _, line=line: [line])
        for language, line in held_out
    ]
    store = SimpleNamespace(
        directory="store",
        corpora=corpora,
        vocabulary=words,
        held_out=SimpleNamespace(sets=lambda split: dev if split == "dev" else []),
    )
    hashed = [
        HashedCorpus(pair, tuple(map(hash_lines, sides)), np.ones(len(sides[0]), dtype=bool))
        for pair, sides in (cleaned or lines).items()
    ]
    experiment = SimpleNamespace(
        languages=STAR.languages,
        graph=STAR,
        overlap=SimpleNamespace(mode=mode, pairs=pairs, matching="exact"),
    )
    return verify(store, hashed, experiment, 1, progress or Silent())


def with_common(*pairs, count=1):
    """The lines, and so many English ones more that all these pairs have in common."""
    found = {pair: ([*first], [*second]) for pair, (first, second) in LINES.items()}
    for pair in pairs:
        found[pair][0].extend(f"common {number}" for number in range(count))
        found[pair][1].extend(f"{pair[1]} {number}" for number in range(count))
    return found


def test_a_sound_store_has_nothing_in_common():
    assert {shared.strings for shared in check()} == {0}


@pytest.mark.parametrize("language_line", [("en", "two"), ("de", "drei"), ("es", "seis")])
def test_a_single_held_out_line_is_a_breach(language_line):
    language, _ = language_line
    with pytest.raises(AccordError, match=f"1 {language} lines of corpus .* dev or test lines"):
        check(held_out=[("fr", "elsewhere"), language_line])


def test_the_same_line_of_another_language_is_none():
    check(held_out=[("de", "two")])


def test_other_lines_than_those_cleaned_are_a_breach():
    cleaned = {**LINES, ("en", "es"): (["six"], ["sieis"])}
    with pytest.raises(AccordError, match="the es lines of corpus en-es are not those cleaned"):
        check(cleaned=cleaned)


@pytest.mark.parametrize("count", [1, 2])
def test_disjoint_allows_not_one_common_sentence(count):
    lines = with_common(("en", "de"), ("en", "fr"), count=count)
    with pytest.raises(AccordError, match=f"{count} en sentences stand in both en-de and en-fr"):
        check(lines)


def test_pairwise_allows_none_in_the_pairs_listed():
    lines = with_common(("en", "de"), ("en", "fr"))
    with pytest.raises(AccordError, match="1 en sentences stand in both"):
        check(lines, mode="pairwise", pairs=("de-fr",))


def test_pairwise_allows_them_elsewhere():
    lines = with_common(("en", "de"), ("en", "fr"))
    left = check(lines, mode="pairwise", pairs=("de-es",))
    assert [(x.first, x.second) for x in left if x.strings] == [("en-de", "en-fr")]


def test_lines_are_read_back_block_by_block(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 2)
    lines = with_common(("en", "de"), count=4)
    assert len(lines["en", "de"][0]) == 7
    progress = Steps()
    check(lines, progress=progress)
    assert progress.seen == [("checking", 20), 7, 14, 16, 18, 19, 20]
    swapped = [*lines["en", "de"][0][:5], *lines["en", "de"][0][:4:-1]]
    cleaned = {**lines, ("en", "de"): (swapped, lines["en", "de"][1])}
    with pytest.raises(AccordError, match="the en lines of corpus en-de are not those cleaned"):
        check(lines, cleaned=cleaned)


def test_a_language_without_held_out_lines_has_none():
    experiment = SimpleNamespace(languages=("en", "de"), overlap=SimpleNamespace(matching="exact"))
    found = module.held_out_hashes(iter([("en", ["b", "a", "b"])]), experiment)
    assert {language: len(hashes) for language, hashes in found.items()} == {"en": 2, "de": 0}


def test_kept_overlap_is_told_and_allowed():
    left = check(with_common(*PAIRS, count=3), mode="keep")
    assert [shared.strings for shared in left] == [3, 3, 3]
