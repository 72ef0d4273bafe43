"""How likely given translations are: teacher forcing, sentence by sentence."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from accord.corpus.vocabulary import PAD
from accord.model.protocol import Seq2Seq
from accord.search.tensors import padded

_LOGITS = 1024  # positions whose logits are held at once


@torch.no_grad()
def cross_entropies(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    device: torch.device,
    batch_tokens: int = 16_384,
) -> list[float]:
    """-log P in nats of every target, ends of sentence included, given its source with its tag."""
    order = sorted(range(len(sources)), key=lambda i: (len(targets[i]), len(sources[i])))
    found = [0.0] * len(order)
    start = 0
    while start < len(order):
        stop, longest = start, 0
        while stop < len(order):
            pair = order[stop]
            longest = max(longest, len(sources[pair]), len(targets[pair]))
            if stop > start and (stop + 1 - start) * longest > batch_tokens:
                break
            stop += 1
        batch = order[start:stop]
        source_BS, lengths_B = padded([sources[i] for i in batch], device)
        target_BT, _ = padded([targets[i] for i in batch], device)
        memory = model.encode(source_BS, lengths_B)
        hidden_BTD = model.decode(memory, model.shifted_embeddings(target_BT))
        nll_BT = _token_nll(model, hidden_BTD.flatten(0, 1), target_BT.flatten())
        sums_B = nll_BT.view(target_BT.shape).sum(dim=1).tolist()
        for i, value in zip(batch, sums_B, strict=True):
            found[i] = value
        start = stop
    return found


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
