"""Corpora of random subwords, held in memory, and what their batches hold."""

import hashlib
from collections import Counter

import numpy as np
from hypothesis import strategies as st

from accord.data.batches import Batch, BatchStream, Position
from accord.data.store import ParallelCorpus, Sentences

LANGUAGES = ("en", "de", "fr", "cs")
TAGS = {"en": 2, "de": 3, "fr": 4, "cs": 5}
BATCH_TOKENS = 64


def random_side(rng: np.random.Generator, lines: int, longest: int = 20) -> Sentences:
    return Sentences.of(
        [rng.integers(6, 60_000, rng.integers(0, longest + 1)) for _ in range(lines)]
    )


def random_corpus(first: str, second: str, lines: int, *, both: bool = True) -> ParallelCorpus:
    rng = np.random.default_rng([ord(second[0]), lines])
    directions = ((first, second), (second, first)) if both else ((first, second),)
    sides = (random_side(rng, lines), random_side(rng, lines))
    return ParallelCorpus((first, second), sides, directions)


def three_corpora() -> list[ParallelCorpus]:
    return [
        random_corpus("en", "de", 90),
        random_corpus("en", "fr", 40, both=False),
        random_corpus("en", "cs", 7),
    ]


def stream_of(corpora: list[ParallelCorpus] | None = None, **options: object) -> BatchStream:
    settings = {"batch_tokens": BATCH_TOKENS, "seed": 3} | options
    return BatchStream(corpora or three_corpora(), LANGUAGES, TAGS, **settings)  # type: ignore[arg-type]


def epoch_of(stream: BatchStream, epoch: int = 0) -> list[Batch]:
    count = stream.batches_per_epoch(epoch)
    return [stream.batch_at(Position(epoch, number)) for number in range(count)]


def examples_in(batches: list[Batch]) -> Counter[tuple[int, str, str, int]]:
    found: Counter[tuple[int, str, str, int]] = Counter()
    for batch in batches:
        columns = (batch.corpus_B, batch.source_language_B, batch.target_language_B, batch.line_B)
        for corpus, source, target, line in zip(*columns, strict=True):
            found[int(corpus), LANGUAGES[source], LANGUAGES[target], int(line)] += 1
    return found


def all_examples(corpora: list[ParallelCorpus]) -> set[tuple[int, str, str, int]]:
    return {
        (c, *direction, line)
        for c, corpus in enumerate(corpora)
        for direction in corpus.directions
        for line in range(len(corpus))
    }


def digest(batches: list[Batch]) -> str:
    state = hashlib.sha256()
    for batch in batches:
        for name, value in vars(batch).items():
            if isinstance(value, int):  # follow from the arrays of all processes
                continue
            state.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
    return state.hexdigest()


corpora_lists = st.lists(
    st.builds(
        lambda target, lines, both: random_corpus("en", target, lines, both=both),
        st.sampled_from(["de", "fr", "cs"]),
        st.integers(0, 60),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
).filter(lambda corpora: any(len(corpus) for corpus in corpora))
