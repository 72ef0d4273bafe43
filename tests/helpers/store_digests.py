"""What a store holds, as checksums: of its files, or of its sentences wherever they lie."""

import hashlib
from pathlib import Path

import numpy as np


def files(directory: Path) -> dict[str, str]:
    """Every file of a store but the machine's own stamps."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in ("stamps.json", ".lock")
    }


def contents(store) -> str:
    """Vocabulary, and ids and offsets of every side."""
    sums = hashlib.sha256(store.vocabulary.model)
    for corpus in store.corpora:
        for side in corpus.sides:
            sums.update(np.asarray(side.ids).tobytes())
            sums.update(np.asarray(side.offsets).tobytes())
    return sums.hexdigest()
