"""Texts as rows of ids that an encoder reads."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from accord.corpus.vocabulary import EOS, PAD, Vocabulary
from accord.search.stepping import graph_width

_HYPOTHESES_ON_CPU = 1024  # at once; more are no faster and take much memory


def source_rows(vocabulary: Vocabulary, texts: Sequence[str], target: str) -> list[list[int]]:
    """Encoder input of each text: the tag of the target language, subwords, end of sentence."""
    tag = vocabulary.tags[target]
    return [[tag, *row, EOS] for row in vocabulary.encode(texts)]


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor [B, S], and their lengths."""
    lengths = [len(row) for row in rows]
    source_BS = np.full((len(rows), max(lengths)), PAD, dtype=np.int64)
    for places_S, row in zip(source_BS, rows, strict=True):
        places_S[: len(row)] = row
    return torch.from_numpy(source_BS).to(device), torch.tensor(lengths, device=device)


def batches(
    lengths: Sequence[int], batch_tokens: int, beam: int, on_gpu: bool
) -> Iterator[list[int]]:
    """Which rows to search together: rows of like length, the longest first.

    On a GPU the size is a power of two, which is what graphs are recorded for.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        if on_gpu:
            rows = 1 << (max(1, batch_tokens // graph_width(longest)).bit_length() - 1)
        else:
            rows = max(1, min(batch_tokens // longest, _HYPOTHESES_ON_CPU // beam))
        yield order[start : start + rows]
        start += rows


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
