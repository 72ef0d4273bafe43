"""Word alignment of a small language that swaps neighbours: both ways, made one, written down."""

import random

import pytest

from accord.config.model_settings import AlignmentSettings
from accord.phrases.alignment import alignment_lines, loaded_aligner, symmetrised
from accord.phrases.phrase_table import write_alignment

FIRST, SECOND = "abcdefgh", "stuvwxyz"


def pair(rng: random.Random) -> tuple[list[str], list[str]]:
    """Four words; the target has them in capitals, neighbours exchanged."""
    words = [rng.choice(FIRST), rng.choice(SECOND), rng.choice(FIRST), rng.choice(SECOND)]
    return words, [words[place].upper() for place in (1, 0, 3, 2)]


@pytest.fixture(scope="module", params=["hmm", "fast-align"])
def learnt(request, tmp_path_factory):
    """The models' directory and settings."""
    directory, rng = tmp_path_factory.mktemp("alignment"), random.Random(1)
    settings, steps = AlignmentSettings(model=request.param, symmetrise="intersection"), []
    pairs = [pair(rng) for _ in range(150)]
    write_alignment(directory, pairs, settings, lambda: steps.append(1))
    assert len(steps) == 2 * settings.iterations * (2 if request.param == "hmm" else 1)
    return directory, settings


def models(learnt):
    directory, settings = learnt
    return [loaded_aligner(directory / f"tm_{name}", settings) for name in ("invswm", "swm")]


def test_both_models_agree_on_the_links(learnt):
    aligner = symmetrised(*models(learnt), learnt[1])
    source, target = pair(random.Random(9))
    found = aligner.get_best_alignment(source, target)[1].to_numpy()
    assert sorted(zip(*found.nonzero(), strict=True)) == [(0, 1), (1, 0), (2, 3), (3, 2)]


def test_the_inverse_model_reads_the_target_language(learnt):
    direct, inverse = models(learnt)
    assert (direct.src_word_exists("a"), direct.trg_word_exists("A")) == (True, True)
    assert (inverse.src_word_exists("A"), inverse.trg_word_exists("a")) == (True, True)
    assert not inverse.src_word_exists("a")


def test_lines_are_those_of_giza(learnt):
    """Of three words that change places in a ring, and lengths that differ: rows are no columns."""
    aligner = symmetrised(*models(learnt), learnt[1])
    pairs = [(list("asbt"), list("SBA")), (list("asb"), list("SBAT"))]
    lines = "".join(alignment_lines(aligner, pairs)).split("\n")
    assert [" ".join(line.split()) for line in lines] == [
        "# 1 1",
        "a s b t",
        "NULL ({ }) S ({ 2 }) B ({ 3 }) A ({ 1 })",
        "# 2 1",
        "a s b",
        "NULL ({ }) S ({ 2 }) B ({ 3 }) A ({ 1 }) T ({ })",
        "",
    ]
