"""The phrase table: pairs of phrases that no alignment crosses, with counts (Och and Ney 2004).

The probabilities of phrases are smoothed by those of their words, which come from the alignment
models; so these stay beside the table, under the names that Thot expects.
"""

from collections.abc import Callable
from pathlib import Path

from accord.config.model_settings import AlignmentSettings, PhraseSettings
from accord.errors import AccordError
from accord.phrases.alignment import (
    Pairs,
    alignment_lines,
    loaded_aligner,
    symmetrised,
    thot,
    train_aligner,
)

TRANSLATION = "tm"
"""Prefix of all files of the translation model."""
# Thot's names: the inverse model explains the source by the target.
_DIRECT, _INVERSE = f"{TRANSLATION}_invswm", f"{TRANSLATION}_swm"
# Share of the phrases' own frequencies, both ways; segments of any length and any place are alike.
_CONSTANTS = {
    "lambda": "0.7 0.7",
    "srcsegmlentable": "Uniform",
    "trgcutstable": "0.999",
    "trgsegmlentable": "Geometric",
}


def write_alignment(
    directory: Path, pairs: Pairs, settings: AlignmentSettings, report: Callable[[], None]
) -> None:
    """Train alignment models of both directions, and save them."""
    turned = [(target, source) for source, target in pairs]
    for name, these in ((_DIRECT, pairs), (_INVERSE, turned)):
        prefix = directory / name
        if not train_aligner(these, settings, report).print(str(prefix)):
            raise _not_written(prefix)


def write_phrases(
    directory: Path,
    models: Path,
    pairs: Pairs,
    alignment: AlignmentSettings,
    settings: PhraseSettings,
) -> None:
    """Extract phrases from the pairs, as the alignment models in `models` link their words."""
    direct, inverse = (loaded_aligner(models / name, alignment) for name in (_DIRECT, _INVERSE))
    linked = directory / "alignment.giza"
    with linked.open("w", encoding="utf-8") as file:
        file.writelines(alignment_lines(symmetrised(direct, inverse, alignment), pairs))
    translation = thot("translation")
    limits = translation.PhraseExtractParameters()
    limits.max_target_phrase_length = settings.longest
    limits.constrain_source_length = True
    table, file_name = translation.PhraseModel(), directory / f"{TRANSLATION}.ttable"
    if not table.build(str(linked), limits, False):
        raise _not_written(linked)
    if not table.print_phrase_table(str(file_name), settings.choices):
        raise _not_written(file_name)
    linked.unlink()
    for ending, text in _CONSTANTS.items():
        (directory / f"{TRANSLATION}.{ending}").write_text(text, encoding="utf-8")


def _not_written(path: Path) -> AccordError:
    return AccordError(
        "Thot could not write or read this file", where=str(path), fix="see that the disk has room"
    )
