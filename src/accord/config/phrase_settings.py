"""Keys of a phrase-based system, below `model`: word alignment, phrases, tuning of its weights."""

from typing import Annotated, Literal

from pydantic import Field

from accord.config.section import Section, Whole

Symmetrisation = Literal[
    "grow-diag-final-and", "grow-diag-final", "grow-diag", "union", "intersection"
]


class AlignmentSettings(Section):
    """Which words of a training pair are translations of each other."""

    model: Literal["hmm", "fast-align"] = "hmm"
    """hmm: IBM model 1, then a hidden Markov model of the jumps between words (Vogel et al. 1996).
    fast-align: IBM model 2 with a preference for the diagonal (Dyer et al. 2013)."""
    iterations: Annotated[Whole, Field(ge=1)] = 5
    """Iterations of EM, of each model in turn."""
    symmetrise: Symmetrisation = "grow-diag-final-and"
    """How alignments of either direction become one (Koehn et al. 2003)."""


class PhraseSettings(Section):
    """The phrases that translations are put together of."""

    longest: Annotated[Whole, Field(ge=1, le=20)] = 7
    """Most words of a phrase."""
    choices: Annotated[Whole, Field(ge=1)] = 10
    """Translations of a phrase that are kept and tried, the likeliest."""


class TuningSettings(Section):
    """Search for the weights that give the highest BLEU on dev sentences of the direction."""

    sentences: Annotated[Whole, Field(ge=1)] = 100
    """Dev sentences to translate, at most all there are; the seed chooses them."""
    evaluations: Annotated[Whole, Field(ge=0)] = 20
    """How often they are translated, each time with other weights; 0 keeps the first weights."""
