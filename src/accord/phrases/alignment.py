"""Word alignment: IBM model 1 and the hidden Markov model, both ways, then made one.

Thot (Ortiz-Martínez and Casacuberta 2014) computes; it is imported where it is needed, since it
comes with an extra.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.config.model_settings import AlignmentSettings
from accord.errors import AccordError

if TYPE_CHECKING:
    from thot.alignment import Aligner, AlignmentModel, SymmetrizedAligner

Words = Sequence[str]
Pairs = Sequence[tuple[Words, Words]]

MOST_WORDS = 200
"""Of a sentence that can be aligned: Thot knows no longer ones, and would cut them."""

# Smoothing of the HMM: the share of jumps to no word, and what is spread over all words and jumps.
_EMPTY, _LEXICAL, _JUMPS = 0.1, 0.1, 0.3


def thot(part: str, threads: int = 1) -> Any:
    """A module of Thot. Sums of several threads come in varying order, so training has one."""
    try:
        library = import_module("thot")
    except ImportError as error:
        raise AccordError(
            f"phrase-based translation needs the package sil-thot: {error}",
            fix="pip install 'accord[smt]'",
        ) from None
    # Its OpenMP is a copy of its own, which no other library's settings reach.
    limit = getattr(ctypes.CDLL(library.__file__), "omp_set_num_threads", None)
    if limit is not None:
        limit(threads)
    return import_module(f"thot.{part}")


def train_aligner(
    pairs: Pairs, settings: AlignmentSettings, report: Callable[[], None]
) -> "AlignmentModel":
    """A model that aligns each second sentence with its first; `report` hears of each iteration."""
    alignment = thot("alignment")
    if settings.model == "fast-align":
        return _trained(_with_pairs(alignment.FastAlignModel(), pairs), settings, report)
    lexical = _trained(_with_pairs(alignment.Ibm1AlignmentModel(), pairs), settings, report)
    jumps = alignment.HmmAlignmentModel(lexical)
    jumps.hmm_p0 = _EMPTY
    jumps.lexical_smoothing_factor = _LEXICAL
    jumps.hmm_alignment_smoothing_factor = _JUMPS
    return _trained(jumps, settings, report)


def _with_pairs(model: "AlignmentModel", pairs: Pairs) -> "AlignmentModel":
    for source, target in pairs:
        model.add_sentence_pair(source, target)
    return model


def _trained(
    model: "AlignmentModel", settings: AlignmentSettings, report: Callable[[], None]
) -> "AlignmentModel":
    model.start_training()
    for _ in range(settings.iterations):
        model.train()
        report()
    model.end_training()
    return model


def loaded_aligner(path: Path, settings: AlignmentSettings) -> "AlignmentModel":
    """A model that was saved with this prefix."""
    alignment = thot("alignment")
    kinds = {"hmm": alignment.HmmAlignmentModel, "fast-align": alignment.FastAlignModel}
    model: AlignmentModel = kinds[settings.model]()
    if not model.load(str(path)):
        raise AccordError(
            "the word alignment cannot be loaded",
            where=str(path),
            fix="run `accord train` with the run's experiment again: it makes anew what is damaged",
        )
    return model


def symmetrised(
    direct: "AlignmentModel", inverse: "AlignmentModel", settings: AlignmentSettings
) -> "Aligner":
    """Both models as one: the words that they agree on, and some of the others around these."""
    alignment = thot("alignment")
    both: SymmetrizedAligner = alignment.SymmetrizedAligner(direct, inverse)
    name = settings.symmetrise.replace("-", "_").upper()
    both.heuristic = getattr(alignment.SymmetrizationHeuristic, name)
    return both


def alignment_lines(aligner: "Aligner", pairs: Pairs) -> Iterator[str]:
    """Aligned pairs as GIZA++ writes them: the source, then each target word with its places."""
    for number, (source, target) in enumerate(pairs, start=1):
        matrix = aligner.get_best_alignment(source, target)[1].to_numpy()
        yield f"# {number} 1\n{' '.join(source)}\nNULL ({{ }}) "
        for place, word in enumerate(target):
            linked = " ".join(str(row + 1) for row in matrix[:, place].nonzero()[0])
            yield f"{word} ({{ {linked} }}) "
        yield "\n"
