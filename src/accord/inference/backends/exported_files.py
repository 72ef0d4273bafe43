"""What exported directories of all formats hold beside the model: subwords and their counts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.inference.backends.manifest import AGAIN, NAME, Manifest

Counts = dict[str, npt.NDArray[np.int64]]


def read_vocabulary(directory: Path, manifest: Manifest) -> tuple[Vocabulary, Counts]:
    """Subwords and tags, and how often each language has each subword in training.

    All of it is read now, since another export may take this one's place.
    """
    names = ("vocabulary.model", "token_counts.npz")
    words, counts = (manifest.file(directory, name) for name in names)
    with loading(counts), np.load(counts) as arrays:
        found: Counts = dict(arrays)
    if set(found) != set(manifest.languages):
        raise AccordError(
            f"{', '.join(manifest.languages)} are not the languages of {counts.name}: "
            f"{', '.join(found)}",
            where=f"{directory / NAME}, key languages",
            fix=AGAIN,
        )
    return Vocabulary.load(words, manifest.languages, fix=AGAIN), found


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """A right checksum proves that a file is as it was written, not that it can be used."""
    try:
        yield
    except AccordError:
        raise
    except Exception as error:  # every library has kinds of its own
        raise AccordError(f"cannot be loaded: {error}", where=str(path), fix=AGAIN) from error
