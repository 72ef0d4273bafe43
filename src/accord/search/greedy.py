"""Greedy search: at every step the likeliest token, until the end of the sentence."""

from collections.abc import Sequence

import torch
from torch import Tensor

from accord.corpus.vocabulary import EOS, PAD, Vocabulary
from accord.model.protocol import Seq2Seq

_ROOM = 50  # the longest translation of n source tokens has 2 n + 50


@torch.no_grad()
def greedy(
    model: Seq2Seq, source_BS: Tensor, lengths_B: Tensor, forbidden_F: Tensor
) -> list[list[int]]:
    """Token ids of each translation, without the end of sentence; the model is left as it is."""
    memory = model.encode(source_BS, lengths_B)
    state = model.initial_state(memory)
    rows = source_BS.shape[0]
    limits_B = 2 * (lengths_B.to(source_BS.device) - 2).clamp(min=0) + _ROOM
    input_BD = model.embed_target(source_BS.new_full((rows,), PAD))  # the zero vector
    done_B = torch.zeros(rows, dtype=torch.bool, device=source_BS.device)
    chosen: list[Tensor] = []
    for step in range(int(limits_B.max())):
        hidden_BD, state = model.step(memory, state, input_BD)
        logits_BV = model.logits(hidden_BD).index_fill(1, forbidden_F, float("-inf"))
        token_B = logits_BV.argmax(dim=1)
        token_B = token_B.masked_fill(done_B | (step >= limits_B), EOS)
        done_B |= token_B == EOS
        chosen.append(token_B)
        # Asking the device whether all are done costs a wait, so it is asked now and then.
        if step % 8 == 7 and bool(done_B.all()):
            break
        input_BD = model.embed_target(token_B)
    rows_BT = torch.stack(chosen, dim=1).tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in rows_BT]


def source_rows(vocabulary: Vocabulary, texts: Sequence[str], target: str) -> list[list[int]]:
    """Encoder input of each text: the tag of the target language, subwords, end of sentence."""
    tag = vocabulary.tags[target]
    return [[tag, *row, EOS] for row in vocabulary.encode(texts)]


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor [B, S], and their lengths."""
    lengths_B = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    width = int(lengths_B.max())
    source_BS = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])
    return source_BS.to(device), lengths_B.to(device)


def translate(
    model: Seq2Seq,
    vocabulary: Vocabulary,
    texts: Sequence[str],
    target: str,
    *,
    device: torch.device,
    batch_tokens: int = 16_384,
) -> list[str]:
    """Translations in the order of the texts; an empty text stays empty."""
    rows = source_rows(vocabulary, texts, target)
    forbidden_F = torch.tensor([PAD, *vocabulary.tags.values()], device=device)
    order = sorted((i for i in range(len(rows)) if len(rows[i]) > 2), key=lambda i: len(rows[i]))
    found: list[list[int]] = [[] for _ in rows]
    start = 0
    while start < len(order):
        # Sorted by length, so the last row of a batch is its longest.
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * len(rows[order[stop]]) <= batch_tokens:
            stop += 1
        chosen = order[start:stop]
        source_BS, lengths_B = padded([rows[i] for i in chosen], device)
        for i, ids in zip(chosen, greedy(model, source_BS, lengths_B, forbidden_F), strict=True):
            found[i] = ids
        start = stop
    return vocabulary.decode(found)
