"""One small batch of uneven rows, and an updater of a small model."""

import numpy as np
import torch

from accord.data.batches import Batch
from accord.models.gnmt import GNMT
from accord.models.tensor_batch import TensorBatch
from accord.objectives.base import Work
from accord.objectives.likelihood import LikelihoodObjective, PairInputs
from accord.training.update import Updater


def ragged_batch(rows=7, seed=5):
    """Rows of very different lengths, so that a mean of means would be wrong."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(2, 12, rows)
    width = int(lengths.max())
    tokens = draw.integers(4, 20, (rows, width)).astype(np.int32)
    tokens[np.arange(width) >= lengths[:, None]] = 0
    none = np.zeros(rows, dtype=np.int16)
    return Batch(tokens, lengths, tokens, lengths, none, none, none, lengths,
                 update_rows=rows, update_target_tokens=int(lengths.sum()))  # fmt: skip


def updater(clip=1e9, rate=0.0, objectives=None):
    torch.manual_seed(2)
    model = GNMT(20, 6, encoder_layers=1, decoder_layers=2, dropout=0.0)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=rate)
    return Updater(
        model,
        optimizer,
        objectives or [LikelihoodObjective(0.1)],
        clip=clip,
        bf16=False,
        graphs=False,
    )


def gold(batch, count=1):
    """The work of the likelihood on a batch in parts."""
    parts = [PairInputs(TensorBatch.from_numpy(batch.part(k, count))) for k in range(count)]
    return Work(parts, (1.0,), batch.target_tokens)
