"""Dev and test sets: read as they are, joined through a pivot language, or split off a corpus."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from accord.config.schema import Cleaning, Corpus, Experiment, HeldOut, PairSet, pair_languages
from accord.data.cleaning import Cleaner, mend
from accord.data.dedup import hash_lines, match_key, priority
from accord.data.formats import read_corpus, read_pair, read_side
from accord.data.language_id import LanguageGuesser
from accord.errors import AccordError, AccordWarning


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences that are the same line for line in each of its languages."""

    name: str
    lines: dict[str, list[str]]
    origin: str
    """How it came to be, for the manifest: the path read, or the two sets joined."""

    def __len__(self) -> int:
        return len(next(iter(self.lines.values())))

    @property
    def languages(self) -> tuple[str, ...]:
        """Those it has lines in."""
        return tuple(self.lines)


@dataclass(frozen=True)
class GivenSet:
    """A multi-parallel set from text files instead of a store, to be evaluated on under a name."""

    name: str
    text: EvaluationSet

    def sets(self, split: str) -> list[EvaluationSet]:
        """The set, if it is asked for by its name."""
        return [self.text] if split == self.name else []

    def pair(self, split: str, source: str, target: str) -> tuple[list[str], list[str]]:
        """Sentences and their references for one direction; empty where there are none."""
        for item in self.sets(split):
            if source in item.languages and target in item.languages:
                return item.lines[source], item.lines[target]
        return [], []


def read_given_set(name: str, path: str, languages: Sequence[str], cleaning: Cleaning) -> GivenSet:
    """The set in those of the languages that have a file; `path` has {lang} in it."""
    there = [
        language
        for language in languages
        if Path(path.replace("{lang}", language).partition("::")[0]).exists()
    ]
    if "{lang}" not in path or len(there) < 2:
        raise AccordError(
            f"a set to evaluate on needs a file in two of the languages {', '.join(languages)}; "
            f"there are {len(there)}",
            where=path,
            fix="give a path with {lang} in the place of the language: news.{lang}.gz",
        )
    return GivenSet(name, _multi_parallel(HeldOut(path=path), there, cleaning))


def held_out_sets(experiment: Experiment) -> dict[str, list[EvaluationSet]]:
    """The sets of both splits. Lines that are split off stand in no other set."""
    found = {
        split: read_held_out(settings, experiment.languages, experiment.cleaning)
        for split, settings in experiment.held_out.items()
        if not settings.lines
    }
    for split in ("test", "dev"):
        if lines := getattr(experiment, split).lines:
            taken = [item for items in found.values() for item in items]
            found[split] = _split_off(experiment, split, lines, taken)
    _tell_shared_lines(found, experiment)
    return {split: found[split] for split in experiment.held_out}


_SHARED = 0.01  # of a test set; short sentences such as "Thank you." may well stand in both


def _tell_shared_lines(
    found: Mapping[str, Sequence[EvaluationSet]], experiment: Experiment
) -> None:
    """Whoever chooses on dev has then chosen on test, and no figure shows it."""
    matching = experiment.overlap.matching
    dev: defaultdict[str, set[str]] = defaultdict(set)
    for item in found.get("dev", ()):
        for language, texts in item.lines.items():
            dev[language].update(match_key(text, matching) for text in texts)
    for item in found.get("test", ()):
        shared = sum(
            all(match_key(text, matching) in dev[language] for language, text in row)
            for row in _rows(item)
        )
        if shared > _SHARED * len(item):
            warnings.warn(
                f"{shared:,} of the {len(item):,} lines of the test set {item.name!r} are lines of "
                "the dev set as well: what is chosen on dev is chosen on test\n"
                "  fix: name other files for one of them, or split lines off: dev: {lines: 100}",
                AccordWarning,
                stacklevel=2,
            )


def _rows(item: EvaluationSet) -> Iterator[list[tuple[str, str]]]:
    """The sentences of each line, with their languages."""
    for texts in zip(*item.lines.values(), strict=True):
        yield list(zip(item.lines, texts, strict=True))


def read_held_out(
    settings: HeldOut, languages: Sequence[str], cleaning: Cleaning
) -> list[EvaluationSet]:
    """All sets of one split. Text is mended as training text is, but no line is ever dropped."""
    if settings.path:
        return [_multi_parallel(settings, languages, cleaning)]
    given = [_pair_set(item, cleaning) for item in settings.sets]
    return given + _joined_sets(given, languages)


def _kept(text: str | None, cleaning: Cleaning, where: str) -> str:
    if text is None:
        raise AccordError("a line of more than 1 MB", where=where, fix="take the line out")
    return mend(text, cleaning, Counter())


def _multi_parallel(
    settings: HeldOut, languages: Sequence[str], cleaning: Cleaning
) -> EvaluationSet:
    path = settings.path or ""
    lines = {
        language: [
            _kept(text, cleaning, path.replace("{lang}", language))
            for text in read_side(path, language, format=settings.format)
        ]
        for language in languages
    }
    counts = {language: len(side) for language, side in lines.items()}
    if len(set(counts.values())) > 1 or not any(counts.values()):
        listed = ", ".join(f"{language} {count:,}" for language, count in counts.items())
        raise AccordError(
            f"a multi-parallel set has the same lines in every language, at least one: {listed}",
            where=path,
            fix="mend the files, or list one set a pair under `sets`",
        )
    return EvaluationSet("all", lines, path)


def _pair_set(item: PairSet, cleaning: Cleaning) -> EvaluationSet:
    first, second = pair_languages(item.pair)
    pairs = [
        (_kept(a, cleaning, item.path), _kept(b, cleaning, item.path))
        for a, b in read_pair(item.path, (first, second), format=item.format, columns=item.columns)
    ]
    if not pairs:
        raise AccordError("the set is empty", where=item.path, fix="check the file and its format")
    lines = {first: [a for a, _ in pairs], second: [b for _, b in pairs]}
    return EvaluationSet(item.pair, lines, item.path)


def _joined_sets(given: Sequence[EvaluationSet], languages: Sequence[str]) -> list[EvaluationSet]:
    """A set for every pair that has none but meets in a pivot language.

    Where several pivots would do, the one that joins the most lines is taken; of equal ones the
    first in the order of `languages`.
    """
    by_pair = {frozenset(item.lines): item for item in given}
    joined = []
    for i, first in enumerate(languages):
        for second in languages[i + 1 :]:
            if frozenset((first, second)) in by_pair:
                continue
            candidates = [
                join(by_pair[frozenset((pivot, first))], by_pair[frozenset((pivot, second))], pivot)
                for pivot in languages
                if frozenset((pivot, first)) in by_pair and frozenset((pivot, second)) in by_pair
            ]
            best = max(candidates, key=len, default=None)
            if best is not None and len(best):
                joined.append(best)
    return joined


def join(first: EvaluationSet, second: EvaluationSet, pivot: str) -> EvaluationSet:
    """The lines whose pivot sentence stands in both sets, in the order of the first.

    A sentence that occurs several times is paired occurrence by occurrence.
    """
    (source,) = set(first.lines) - {pivot}
    (target,) = set(second.lines) - {pivot}
    places: defaultdict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(second.lines[pivot]):
        places[text].append(index)
    used: Counter[str] = Counter()
    rows = []
    for index, text in enumerate(first.lines[pivot]):
        nth = used[text]
        if nth < len(places.get(text, ())):
            rows.append((index, places[text][nth]))
            used[text] += 1
    lines = {
        source: [first.lines[source][i] for i, _ in rows],
        target: [second.lines[target][j] for _, j in rows],
    }
    origin = (
        f"joined on {pivot}: {first.name} ({len(first):,}) with {second.name} ({len(second):,})"
    )
    return EvaluationSet(f"{source}-{target}", lines, origin)


# --- Sets for which there are no files: lines of the training corpora.


_BLOCK = 5000  # lines hashed at once


def _split_off(
    experiment: Experiment, split: str, lines: int, taken: Sequence[EvaluationSet]
) -> list[EvaluationSet]:
    """So many lines of every corpus, none of whose sentences stands in a set that was `taken`.

    They are no more lines of training: those that hold a dev or test sentence never are.
    """
    matching = experiment.overlap.matching
    keys: dict[str, set[str]] = defaultdict(set)
    for item in taken:
        for language, texts in item.lines.items():
            keys[language].update(match_key(text, matching) for text in texts)
    found = []
    for corpus in experiment.corpora:
        free = (
            pair
            for pair in _clean_pairs(corpus, experiment)
            if not any(
                match_key(text, matching) in keys[language]
                for language, text in zip(corpus.languages, pair, strict=True)
            )
        )
        chosen = _lowest_pairs(free, lines, experiment, corpus)
        if len(chosen) < lines:
            raise AccordError(
                f"the corpus {corpus.pair} has {len(chosen):,} lines to choose from, but {split} "
                f"asks for {lines:,}",
                where=f"{split}.lines",
                fix="ask for fewer lines, or name files of dev and test sentences",
            )
        sides = {
            language: [pair[side] for pair in chosen]
            for side, language in enumerate(corpus.languages)
        }
        found.append(EvaluationSet(corpus.pair, sides, f"split off the corpus {corpus.pair}"))
    return found + _joined_sets(found, experiment.languages)


def _clean_pairs(corpus: Corpus, experiment: Experiment) -> Iterator[tuple[str, str]]:
    """What cleaning leaves of a corpus, with text on both sides."""
    cleaning = experiment.cleaning
    guesser = LanguageGuesser(experiment.languages) if cleaning.wrong_language else None
    cleaner = Cleaner(cleaning, corpus.languages, guesser)
    for lines in read_corpus(corpus):
        pair = cleaner.clean(lines)
        if pair is not None and all(pair):
            yield pair


def _lowest_pairs(
    pairs: Iterator[tuple[str, str]], count: int, experiment: Experiment, corpus: Corpus
) -> list[tuple[str, str]]:
    """The pairs of the lowest priorities, in constant memory and whatever the order of lines.

    The priority is that of the sentence of the language with more corpora, the likely pivot: what
    corpora have in common is chosen in all of them, so that zero-shot pairs get sets by joining.
    """
    side = _pivot_side(experiment, corpus)
    best: dict[int, tuple[str, str]] = {}
    highest = 2**64
    while block := list(islice(pairs, _BLOCK)):
        hashes = hash_lines((pair[side] for pair in block), experiment.overlap.matching)
        order = priority(hashes, experiment.seed, "held out").tolist()
        for place, pair in zip(order, block, strict=True):
            if place <= highest:
                best[place] = min(pair, best.get(place, pair))
        if len(best) > count:
            best = dict(sorted(best.items())[:count])
            highest = max(best)
    return [pair for _, pair in sorted(best.items())]


def _pivot_side(experiment: Experiment, corpus: Corpus) -> int:
    counts = Counter(language for item in experiment.corpora for language in item.languages)
    first, second = corpus.languages
    if (
        counts[first] == counts[second]
    ):  # one order for all corpora, however their pairs are written
        return min((0, 1), key=lambda side: experiment.languages.index(corpus.languages[side]))
    return int(counts[second] > counts[first])
