"""Reading a written store back and proving what it promises; a breach is always an error."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from accord.config.schema import Experiment, pair_languages
from accord.data.dedup import (
    HashedCorpus,
    Hashes,
    Shared,
    ZeroShotPairs,
    contains,
    distinct,
    hash_lines,
    shared_strings,
)
from accord.data.store import Sentences, Store
from accord.errors import AccordError
from accord.progress import Progress

_BLOCK = 20_000


def zero_shot_pairs(experiment: Experiment) -> ZeroShotPairs:
    """The unordered pairs of languages without any training data of their own."""
    return frozenset(frozenset(pair) for pair in experiment.graph.zero_shot_pairs())


def held_out_hashes(
    lines_of: Iterator[tuple[str, list[str]]], experiment: Experiment
) -> dict[str, Hashes]:
    """The distinct dev and test lines of every language, as sorted hashes."""
    found: dict[str, list[Hashes]] = {language: [] for language in experiment.languages}
    for language, lines in lines_of:
        found[language].append(hash_lines(lines, experiment.overlap.matching))
    empty = np.zeros(0, dtype=np.uint64)
    return {language: distinct(np.concatenate([empty, *h])) for language, h in found.items()}


def _texts(store: Store, sentences: Sentences, threads: int) -> Iterator[str]:
    for start in range(0, len(sentences), _BLOCK):
        stop = min(start + _BLOCK, len(sentences))
        flat = sentences.ids[sentences.offsets[start] : sentences.offsets[stop]].tolist()
        bounds = (sentences.offsets[start : stop + 1] - sentences.offsets[start]).tolist()
        rows = [flat[a:b] for a, b in pairwise(bounds)]
        yield from store.vocabulary.decode(rows, threads=threads)


def verify(
    store: Store,
    corpora: Sequence[HashedCorpus],
    experiment: Experiment,
    threads: int,
    progress: Progress,
) -> list[Shared]:
    """Decode every training sentence from the store: it must be what was cleaned, and no other.

    `corpora` has the hashes of the clean text. Returns the overlap that is left, which for modes
    other than `disjoint` may be some.
    """
    matching = experiment.overlap.matching
    lines_of = (
        (language, item.lines(language))
        for split in ("dev", "test")
        for item in store.held_out.sets(split)
        for language in item.languages
    )
    held_out = held_out_hashes(lines_of, experiment)
    progress.start("checking", sum(2 * len(corpus) for corpus in store.corpora))
    done = 0
    for corpus, cleaned in zip(store.corpora, corpora, strict=True):
        for language, sentences, side in zip(
            corpus.languages, corpus.sides, cleaned.sides, strict=True
        ):
            hashes = hash_lines(_texts(store, sentences, threads), matching)
            if not np.array_equal(hashes, side[cleaned.keep]):
                raise _breach(
                    store, f"the {language} lines of corpus {corpus.name} are not those cleaned"
                )
            leaked = int(contains(held_out[language], hashes).sum())
            if leaked:
                raise _breach(
                    store,
                    f"{leaked:,} {language} lines of corpus {corpus.name} are dev or test lines",
                )
            done += len(sentences)
            progress.reach(done)
    left = shared_strings(corpora, zero_shot_pairs(experiment))
    _refuse_overlap(store, experiment, left)
    return left


def _breach(store: Store, what: str) -> AccordError:
    return AccordError(
        what,
        where=str(store.directory),
        fix="this should not happen: please report it with the manifest",
    )


def _refuse_overlap(store: Store, experiment: Experiment, left: Sequence[Shared]) -> None:
    overlap = experiment.overlap
    listed = {frozenset(pair_languages(pair)) for pair in overlap.pairs}
    for shared in left:
        if overlap.mode == "keep" or not shared.strings or not shared.zero_shot:
            continue
        ends = (set(pair_languages(shared.first)) | set(pair_languages(shared.second))) - {
            shared.pivot
        }
        if overlap.mode == "disjoint" or frozenset(ends) in listed:
            raise _breach(
                store,
                f"{shared.strings:,} {shared.pivot} sentences stand in both {shared.first} and "
                f"{shared.second}",
            )
