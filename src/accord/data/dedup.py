"""When two sentences count as the same: 64-bit hashes of the text, exact or normalised."""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

Matching = Literal["exact", "normalised"]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


class _LettersOnly(dict[int, int | None]):
    """A `str.translate` table that fills itself: punctuation, symbols, spaces, controls go."""

    def __missing__(self, code: int) -> int | None:
        keep = unicodedata.category(chr(code))[0] not in "PSZC"
        self[code] = code if keep else None
        return self[code]


_LETTERS_ONLY = _LettersOnly()


def match_key(text: str, matching: Matching) -> str:
    """What is compared: the text, or the text without case, punctuation and spacing."""
    if matching == "exact":
        return text
    key = unicodedata.normalize("NFKC", text).casefold().translate(_LETTERS_ONLY)
    # A line of punctuation only would match every other such line.
    return key or text


def hash_lines(lines: Iterable[str], matching: Matching = "exact") -> Hashes:
    """One 64-bit hash a line, the same on every machine and for every PYTHONHASHSEED."""
    digests = bytearray()
    for line in lines:
        digests += hash_line(match_key(line, matching))
    return np.frombuffer(bytes(digests), dtype="<u8")


def hash_line(text: str) -> bytes:
    """The eight bytes that stand for a text."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()


def kth_lowest(ordered: Sequence[Hashes], count: int) -> int:
    """The `count`-th lowest number of several sorted arrays, found by counting alone."""
    low, high = 0, 2**64 - 1
    while low < high:
        middle = (low + high) // 2
        below = sum(int(np.searchsorted(a, np.uint64(middle), "right")) for a in ordered)
        low, high = (low, middle) if below >= count else (middle + 1, high)
    return low


def priority(hashes: Hashes, seed: int, *salt: str) -> Hashes:
    """A pseudo-random order of hashes that depends on nothing but seed and salt.

    Every random choice about lines is made by comparing these numbers, so it is the same for any
    order of lines, number of workers and machine; and the first n by priority are nested subsets.
    """
    text = "\x1f".join((str(seed), *salt))
    start = np.frombuffer(hash_line(text), dtype="<u8")[0]
    with np.errstate(over="ignore"):
        # The finaliser of SplitMix64: a bijection that spreads every input bit over the output.
        mixed: Hashes = hashes + start
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def distinct(hashes: Hashes) -> Hashes:
    """Sorted and each once; np.unique hashes again, which takes 15 times as long and more room."""
    ordered = np.sort(hashes)
    if not len(ordered):
        return ordered
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def contains(sorted_unique: Hashes, values: Hashes) -> Mask:
    """For each value, whether it stands in a sorted array."""
    if len(sorted_unique) == 0:
        return np.zeros(len(values), dtype=np.bool_)
    places = np.searchsorted(sorted_unique, values)
    places[places == len(sorted_unique)] = 0
    return np.asarray(sorted_unique[places] == values)


def repeated_pairs(first: Hashes, second: Hashes) -> Mask:
    """Marks every line whose two hashes stood together in an earlier line."""
    order = np.lexsort((second, first))  # stable: of equal pairs, the earliest line comes first
    same = (first[order[1:]] == first[order[:-1]]) & (second[order[1:]] == second[order[:-1]])
    repeated = np.zeros(len(first), dtype=np.bool_)
    repeated[order[1:][same]] = True
    return repeated


def lowest(priorities: Hashes, count: int) -> Mask:
    """Marks the `count` lowest priorities, or all where there are fewer; of equal ones the first.

    Which of equal ones np.argpartition takes depends on the processor. Their values do not.
    """
    if count >= len(priorities):
        return np.ones(len(priorities), dtype=np.bool_)
    if count < 1:
        return np.zeros(len(priorities), dtype=np.bool_)
    last = np.partition(priorities, count - 1)[count - 1]
    chosen: Mask = priorities < last
    equal = np.flatnonzero(priorities == last)
    chosen[equal[: count - int(chosen.sum())]] = True
    return chosen


# --- Removing pivot sentences that stand in several corpora, so that zero-shot stays zero-shot.
#
# If the English sentence of an en-de pair also stands in the en-fr corpus, the two pairs together
# are a German-French example: a complete pivot. Two corpora *conflict* if they share a language
# (the pivot) and their other languages are a zero-shot pair.


_BLOCK = 1 << 20  # strings handled at once, so that memory does not grow with their number


@dataclass
class HashedCorpus:
    """One corpus as overlap removal sees it: a hash for each side of each line."""

    languages: tuple[str, str]
    sides: tuple[Hashes, Hashes]
    keep: Mask
    """Lines that are still in; removal clears marks here."""

    @property
    def name(self) -> str:
        """The pair, for example `en-de`."""
        return "-".join(self.languages)

    def strings(self, language: str) -> Hashes:
        """The distinct hashes of one side among the lines that are still in, sorted."""
        return distinct(self.sides[self.languages.index(language)][self.keep])

    def remove(self, language: str, strings: Hashes) -> None:
        """Take out every line with one of these (sorted) hashes on the given side."""
        self.keep &= ~contains(strings, self.sides[self.languages.index(language)])

    def other(self, language: str) -> str:
        """The language of the other side."""
        return self.languages[1 - self.languages.index(language)]


@dataclass(frozen=True)
class Shared:
    """How many distinct pivot sentences two corpora have in common."""

    pivot: str
    first: str
    second: str
    zero_shot: bool
    strings: int


ZeroShotPairs = frozenset[frozenset[str]]


@dataclass(frozen=True)
class Meeting:
    """Two corpora, by their places, that meet in a pivot and complete a listed pair."""

    pivot: str
    first: int
    second: int
    pair: tuple[str, str]


def meeting_languages(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """The languages that stand in two corpora at least, in the order of the corpora."""
    counts = Counter(language for pair in pairs for language in pair)
    return [language for language, corpora in counts.items() if corpora > 1]


def shared_strings(
    corpora: Sequence[HashedCorpus], zero_shot: ZeroShotPairs, only: str | None = None
) -> list[Shared]:
    """The overlap of every two corpora that meet in a language, language by language, or in one."""
    found = []
    for pivot in meeting_languages([corpus.languages for corpus in corpora]):
        if only not in (None, pivot):
            continue
        members = [corpus for corpus in corpora if pivot in corpus.languages]
        # Sorting is what takes long, so it is done once a corpus and not once a meeting.
        strings = [corpus.strings(pivot) for corpus in members]
        for (first, some), (second, others) in combinations(zip(members, strings, strict=True), 2):
            ends = frozenset((first.other(pivot), second.other(pivot)))
            few, many = sorted((some, others), key=len)
            common = int(contains(many, few).sum())
            found.append(Shared(pivot, first.name, second.name, ends in zero_shot, common))
    return found


def conflicts(members: Sequence[tuple[str, str]], pivot: str, zero_shot: ZeroShotPairs) -> Mask:
    """Which two corpora, all of which have the pivot, complete a zero-shot pair."""
    ends = [(set(pair) - {pivot}).pop() for pair in members]
    return np.array([[frozenset((a, b)) in zero_shot for b in ends] for a in ends], dtype=np.bool_)


def make_disjoint(
    corpora: Sequence[HashedCorpus],
    zero_shot: ZeroShotPairs,
    seed: int,
    only: str | None = None,
) -> None:
    """Mode `disjoint`: a pivot sentence stays only in corpora that do not conflict.

    With one pivot language and no other data between the rest, as in English-centred sets, every
    two corpora conflict, and each shared sentence goes to exactly one of them, each being equally
    likely. In richer graphs it stays in a random maximal set of corpora without conflict.
    Pivots are dealt with in the order of their names; with `only`, just that one is.
    """
    for pivot in sorted(meeting_languages([corpus.languages for corpus in corpora])):
        if only not in (None, pivot):
            continue
        members = [corpus for corpus in corpora if pivot in corpus.languages]
        conflict = conflicts([corpus.languages for corpus in members], pivot, zero_shot)
        if not conflict.any():
            continue
        strings = [corpus.strings(pivot) for corpus in members]
        everything = np.sort(np.concatenate(strings))
        shared = distinct(everything[1:][everything[1:] == everything[:-1]])
        del everything
        losers: list[list[Hashes]] = [[] for _ in members]
        for start in range(0, len(shared), _BLOCK):
            block = shared[start : start + _BLOCK]
            holds = np.stack([contains(s, block) for s in strings], axis=1)
            order = np.argsort(
                np.stack([priority(block, seed, pivot, c.name) for c in members], axis=1),
                axis=1,
                kind="stable",
            )
            stays = _greedy(holds, order, conflict)
            for lost, column in zip(losers, (holds & ~stays).T, strict=True):
                lost.append(block[column])
        for corpus, lost in zip(members, losers, strict=True):
            if lost:
                corpus.remove(pivot, np.concatenate(lost))


def _greedy(holds: Mask, order: npt.NDArray[np.int64], conflict: Mask) -> Mask:
    """Row by row, keep corpora in the given order unless one kept before conflicts."""
    stays = np.zeros_like(holds)
    rows = np.arange(len(holds))
    for turn in range(holds.shape[1]):
        candidate = order[:, turn]
        blocked = (stays & conflict[candidate]).any(axis=1)
        stays[rows, candidate] = holds[rows, candidate] & ~blocked
    return stays


def pairwise_meetings(
    corpora: Sequence[tuple[str, str]], pairs: Sequence[tuple[str, str]]
) -> Iterator[Meeting]:
    """Mode `pairwise`, the paper's procedure: whose common pivots are halved, in which order.

    The pairs are taken in turn, each on what the ones before have left, so that no sentence is
    lost everywhere (independent splits of three pairs would lose a quarter of them).
    """
    for pair in pairs:
        for (i, first), (j, second) in combinations(enumerate(corpora), 2):
            for pivot in first:
                if pivot in second and {*first, *second} - {pivot} == set(pair):
                    yield Meeting(pivot, i, j, pair)


def common_pivots(
    first: HashedCorpus, second: HashedCorpus, meeting: Meeting, seed: int
) -> tuple[Hashes, Hashes]:
    """The pivot sentences that both corpora have, and the order in which they are shared out."""
    pivot = meeting.pivot
    common = np.intersect1d(first.strings(pivot), second.strings(pivot), True)
    return common, priority(common, seed, pivot, *meeting.pair)


def halve(
    first: HashedCorpus, second: HashedCorpus, meeting: Meeting, seed: int, middle: int
) -> None:
    """Common pivots before the middle one stay in the second corpus, the others in the first."""
    common, order = common_pivots(first, second, meeting, seed)
    before: Mask = order < np.uint64(middle)
    first.remove(meeting.pivot, common[before])
    second.remove(meeting.pivot, common[~before])
