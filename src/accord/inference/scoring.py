"""How likely given translations are, and what else is: teacher forcing, sentence by sentence."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from accord.data.vocabulary import EOS, PAD, Vocabulary
from accord.inference.beam_search import padded
from accord.inference.beam_step import logits, mixed
from accord.inference.text import source_rows
from accord.models.base import Seq2Seq

_LOGITS = 1024  # positions whose logits are held at once


@torch.no_grad()
def cross_entropies(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    device: torch.device,
    batch_tokens: int = 16_384,
    languages: Sequence[int] | None = None,
) -> list[float]:
    """-log P in nats of every target, ends of sentence included, given its source with its tag.

    `languages` numbers those of the sources, for models that read it.
    """
    found = [0.0] * len(sources)
    for batch in _batches([sources], targets, batch_tokens):
        target_BT, _ = padded([targets[i] for i in batch], device)
        hidden_BTD = _hidden(model, sources, languages, batch, target_BT)
        nll_BT = _token_nll(model, hidden_BTD.flatten(0, 1), target_BT.flatten())
        sums_B = nll_BT.view(target_BT.shape).sum(dim=1).tolist()
        for i, value in zip(batch, sums_B, strict=True):
            found[i] = value
    return found


def text_cross_entropies(
    model: Seq2Seq,
    vocabulary: Vocabulary,
    sources: Sequence[str],
    references: Sequence[str],
    target: str,
    *,
    device: torch.device,
    batch_tokens: int = 16_384,
    source: str | None = None,
) -> list[tuple[float, int]]:
    """-log P of each reference in nats, and its number of tokens; both include its end.

    All sources are in the language `source`, which models may read.
    """
    inputs = source_rows(vocabulary, sources, target)
    outputs = [[*row, EOS] for row in vocabulary.encode(references)]
    index = None if source is None else vocabulary.languages.index(source)
    found = cross_entropies(
        model,
        inputs,
        outputs,
        device=device,
        batch_tokens=batch_tokens,
        languages=None if index is None else [index] * len(inputs),
    )
    return [(nats, len(row)) for nats, row in zip(found, outputs, strict=True)]


@torch.no_grad()
def likeliest(
    model: Seq2Seq,
    sources: Sequence[Sequence[Sequence[int]]],
    targets: Sequence[Sequence[int]],
    *,
    weights: Sequence[float],
    forbidden_F: Tensor,
    count: int,
    device: torch.device,
    batch_tokens: int = 16_384,
    languages: Sequence[Sequence[int] | None] | None = None,
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Numbers of some targets, and at each place of these, end to end, the likeliest tokens and
    their probabilities among themselves [M, K]; until all targets have had their turn.

    `sources[m][i]` is the m-th source of target i; where there are several, what they say is mixed
    as in an ensemble, by `weights`. Forbidden tokens are not among those found. `languages[m][i]`
    numbers the language of that source, for models that read it.
    """
    languages = languages or [None] * len(sources)
    for batch in _batches(sources, targets, batch_tokens):
        target_BT, _ = padded([targets[i] for i in batch], device)
        real_BT = target_BT != PAD
        hidden = [
            _hidden(model, member, known, batch, target_BT)[real_BT]
            for member, known in zip(sources, languages, strict=True)
        ]
        tokens, shares = [], []
        for parts in zip(*(torch.split(each_ND, _LOGITS) for each_ND in hidden), strict=True):
            scores_NV = logits(model, torch.cat(parts))
            if len(parts) > 1:  # else what is missing is one number a row, the same for all tokens
                scores_NV = mixed(scores_NV.log_softmax(dim=1), weights)
            top = scores_NV.index_fill_(1, forbidden_F, -torch.inf).topk(count, dim=1)
            tokens.append(top.indices)
            shares.append(top.values.softmax(dim=1))
        yield batch, torch.cat(tokens), torch.cat(shares)


def _batches(
    sources: Sequence[Sequence[Sequence[int]]], targets: Sequence[Sequence[int]], tokens: int
) -> Iterator[list[int]]:
    """Numbers of targets of about one length, as many as have together this many tokens."""
    lengths = [
        (len(target), max(len(member[i]) for member in sources)) for i, target in enumerate(targets)
    ]
    order = sorted(range(len(targets)), key=lengths.__getitem__)
    start = 0
    while start < len(order):
        stop, longest = start, 0
        while stop < len(order):
            longest = max(longest, *lengths[order[stop]])
            if stop > start and (stop + 1 - start) * longest > tokens:
                break
            stop += 1
        yield order[start:stop]
        start = stop


def _hidden(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    languages: Sequence[int] | None,
    batch: Sequence[int],
    target_BT: Tensor,
) -> Tensor:
    """Hidden vectors along the targets, given those sources whose numbers are in the batch."""
    device, language_B = target_BT.device, None
    source_BS, lengths_B = padded([sources[i] for i in batch], device)
    if languages is not None:
        language_B = torch.tensor([languages[i] for i in batch], device=device)
    memory = model.encode(source_BS, lengths_B, language_B)
    return model.decode(memory, model.shifted_embeddings(target_BT))


def _token_nll(model: Seq2Seq, hidden_ND: Tensor, target_N: Tensor) -> Tensor:
    """-log P of every token, 0 for padding."""
    exact = torch.promote_types(model.output_weight.dtype, torch.float32)
    parts = [
        functional.cross_entropy(
            model.logits(hidden).to(exact), target, ignore_index=PAD, reduction="none"
        )
        for hidden, target in zip(
            torch.split(hidden_ND, _LOGITS), torch.split(target_N, _LOGITS), strict=True
        )
    ]
    return torch.cat(parts)
