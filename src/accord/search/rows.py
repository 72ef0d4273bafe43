"""Texts as rows of ids that an encoder reads, whatever computes with them."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from accord.corpus.vocabulary import EOS, PAD, Vocabulary

Ints = npt.NDArray[np.int64]

_HYPOTHESES_ON_CPU = 1024  # at once; more are no faster and take much memory


def source_rows(vocabulary: Vocabulary, texts: Sequence[str], target: str) -> list[list[int]]:
    """Encoder input of each text: the tag of the target language, subwords, end of sentence."""
    tag = vocabulary.tags[target]
    return [[tag, *row, EOS] for row in vocabulary.encode(texts)]


def padded_array(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Rows of ids as one array [B, S], and their lengths."""
    lengths_B = np.array([len(row) for row in rows], dtype=np.int64)
    source_BS = np.full((len(rows), lengths_B.max()), PAD, dtype=np.int64)
    for places_S, row in zip(source_BS, rows, strict=True):
        places_S[: len(row)] = row
    return source_BS, lengths_B


def most_tokens(source_length: int) -> int:
    """The length of the longest translation, 2 n + 50; a source has tag and end besides its n."""
    return 2 * max(0, source_length - 2) + 50


def batches(lengths: Sequence[int], fitting: Callable[[int], int]) -> Iterator[list[int]]:
    """Which rows to search together: rows of like length, the longest first.

    `fitting` says how many rows of a given length may be searched at once.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        rows = fitting(lengths[order[start]])
        yield order[start : start + rows]
        start += rows


def fitting_on_cpu(longest: int, batch_tokens: int, beam: int) -> int:
    """How many rows of at most this length a CPU should search at once."""
    return max(1, min(batch_tokens // longest, _HYPOTHESES_ON_CPU // beam))


def windows(ids: Sequence[int], pieces: Sequence[str], longest: int) -> list[tuple[int, int]]:
    """Where to cut a row into parts of at most `longest` subwords, as (start, stop).

    In the second half of a part the last end of a sentence is looked for, then the last end of a
    word; where there is neither, the cut goes through a word.
    """
    cuts = [0]
    while len(ids) - cuts[-1] > longest:
        first, last = cuts[-1] + longest // 2 + 1, cuts[-1] + longest
        words = [i for i in range(last, first - 1, -1) if starts_word(pieces[ids[i]])]
        sentences = (i for i in words if pieces[ids[i - 1]].endswith((".", "!", "?", ";", ":")))
        cuts.append(next(sentences, words[0] if words else last))
    return list(zip(cuts, [*cuts[1:], len(ids)], strict=True))


def starts_word(piece: str) -> bool:
    """Whether a subword stands at the beginning of a word."""
    return piece.startswith("\u2581")
