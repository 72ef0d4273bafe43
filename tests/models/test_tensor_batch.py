import numpy as np
import torch

from accord.data.batches import Batch
from accord.models.tensor_batch import TensorBatch


def batch(source: list[list[int]], target: list[list[int]]) -> Batch:
    def pad(rows: list[list[int]]) -> np.ndarray:
        width = max(map(len, rows), default=0)
        filled = [row + [0] * (width - len(row)) for row in rows]
        return np.array(filled, dtype=np.int32).reshape(len(rows), width)

    zeros = np.zeros(len(source), dtype=np.int16)
    return Batch(
        source_BS=pad(source),
        source_lengths_B=np.array([len(row) for row in source], dtype=np.int64),
        target_BT=pad(target),
        target_lengths_B=np.array([len(row) for row in target], dtype=np.int64),
        source_language_B=zeros,
        target_language_B=zeros,
        corpus_B=zeros,
        line_B=zeros.astype(np.int64),
        update_rows=len(source),
        update_target_tokens=sum(map(len, target)),
    )


def test_places_are_those_of_the_real_target_tokens() -> None:
    tensors = TensorBatch.from_numpy(
        batch([[3, 5, 1], [4, 1]], [[7, 1], [8, 9, 1]]), torch.device("cpu")
    )
    assert tensors.source_BS.tolist() == [[3, 5, 1], [4, 1, 0]]
    assert tensors.source_lengths_B.tolist() == [3, 2]
    assert tensors.places_N.tolist() == [0, 1, 3, 4, 5]
    assert tensors.target_BT.flatten()[tensors.places_N].tolist() == [7, 1, 8, 9, 1]
    assert tensors.target_lengths_B.tolist() == [2, 3]
    assert tensors.target_tokens == 5


def test_an_empty_batch_has_no_tokens() -> None:
    assert TensorBatch.from_numpy(batch([], []), torch.device("cpu")).target_tokens == 0
