"""A cipher that swaps some neighbours: what alignment, phrases, language model and search learn."""

import random

import pytest

from accord.config.model_settings import AlignmentSettings, PhraseSettings
from accord.errors import AccordError
from accord.phrases import alignment
from accord.phrases.decoder import LANGUAGE_MODEL, PhraseDecoder
from accord.phrases.language_model import NgramCounts
from accord.phrases.phrase_table import write_alignment, write_phrases
from accord.phrases.words import Truecaser, join

PAIRS, NEW = 400, 50
NOUNS = [f"haus{letter}" for letter in "abcdefghij"]
COLOURS = [f"rot{letter}" for letter in "abcdefghij"]
VERBS = [f"geht{letter}" for letter in "abcde"]


def cipher(word: str) -> str:
    return word[::-1].upper()


def sentence(rng: random.Random) -> tuple[list[str], list[str]]:
    """Noun phrases round a verb; the target has its colours after the nouns."""
    source, target = [], []
    for place in range(3):
        noun, colour, verb = rng.choice(NOUNS), rng.choice(COLOURS), rng.choice(VERBS)
        source += [colour, noun, *([verb] if place < 2 else [])]
        target += [cipher(noun), cipher(colour), *([cipher(verb)] if place < 2 else [])]
    return source, target


def system(directory, pairs, settings):
    phrases = PhraseSettings()
    write_alignment(directory, pairs, settings, lambda: None)
    write_phrases(directory, directory, pairs, settings, phrases)
    counts = NgramCounts.of([target for _, target in pairs])
    counts.write(directory / LANGUAGE_MODEL, counts.fitted_weights([]))
    return opened(directory, settings)


def opened(directory, settings=AlignmentSettings(), **options):  # noqa: B008 (frozen)
    keys = {"longest": 7, "choices": 10, "reordering": 4} | options
    return PhraseDecoder(directory, settings, Truecaser({}), **keys)


def cipher_pairs(*, shuffled: bool = False):
    rng = random.Random(1)
    pairs = [sentence(rng) for _ in range(PAIRS + NEW)]
    targets = [target for _, target in pairs[:PAIRS]]
    if shuffled:
        rng.shuffle(targets)
    known = [(source, target) for (source, _), target in zip(pairs, targets, strict=False)]
    return known, pairs[PAIRS:]


def exact(decoder, new) -> int:
    found = decoder.translate([join(source) for source, _ in new])
    return sum(list(each.words) == target for each, (_, target) in zip(found, new, strict=True))


def test_nothing_is_learnt_from_pairs_that_are_none(tmp_path):
    known, new = cipher_pairs(shuffled=True)
    assert exact(system(tmp_path, known, AlignmentSettings()), new) <= 2


@pytest.fixture(scope="module")
def learnt_files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cipher")
    system(directory, cipher_pairs()[0], AlignmentSettings())
    return directory


@pytest.fixture(scope="module")
def learnt(learnt_files):
    return opened(learnt_files)


def test_a_cipher_with_swaps_is_learnt(learnt):
    assert exact(learnt, cipher_pairs()[1]) >= 30


def test_swaps_are_made_by_reordering_where_phrases_are_single_words(learnt_files):
    new = cipher_pairs()[1]
    assert exact(opened(learnt_files, longest=1), new) >= 30
    assert exact(opened(learnt_files, longest=1, reordering=0), new) <= 2


def test_swaps_are_made_by_phrases_where_nothing_is_reordered(learnt_files):
    assert exact(opened(learnt_files, reordering=0), cipher_pairs()[1]) >= 30


SENSES = {"geld": ("BANK", 60), "garten": ("BENCH", 28), "fluss": ("SHORE", 12)}


@pytest.fixture(scope="module")
def ambiguous(tmp_path_factory):
    """A word of three senses, of which the word before it chooses: the language model's work."""
    directory = tmp_path_factory.mktemp("ambiguous")
    pairs = []
    for word, (sense, times) in SENSES.items():
        pairs += [([word, "bank"], [cipher(word), sense])] * times
        pairs += [([word, verb], [cipher(word), cipher(verb)]) for verb in VERBS] * 8
    system(directory, pairs, AlignmentSettings())
    return directory


# One choice is the likeliest and the next: Thot would take 1 for a share of the likeliest.
@pytest.mark.parametrize(("choices", "known"), [(1, 2), (2, 2), (3, 3)])
def test_so_many_translations_of_a_phrase_are_tried(ambiguous, choices, known):
    decoder = opened(ambiguous, longest=1, choices=choices)
    found = [each.words[1] for each in decoder.translate([f"{word} bank" for word in SENSES])]
    senses = [sense for sense, _ in SENSES.values()]
    assert found == [*senses[:known], *["BANK"] * (3 - known)]


def test_the_other_alignment_learns_it_too(tmp_path):
    known, new = cipher_pairs()
    assert exact(system(tmp_path, known, AlignmentSettings(model="fast-align")), new) >= 30


def test_unknown_words_are_copied_and_the_sentence_begins_as_it_did(learnt):
    found, empty = learnt.translate(["Neu hausa.", ""])
    assert "ASUAH" in found.text
    assert found.text.startswith("Neu") or "eu" in found.text
    assert (empty.text, empty.words, empty.score) == ("", (), 0.0)


def test_a_sentence_that_is_too_long_is_translated_in_parts(learnt):
    words = ["rota", "hausa", "gehta"] * 150
    (found,) = learnt.translate([" ".join(words)])
    assert len(found.words) == 450
    five = [" ".join(words[start : start + 90]) for start in range(0, 450, 90)]  # at most 100 each
    assert found.score == pytest.approx(sum(part.score for part in learnt.translate(five)))


def test_threads_change_nothing(learnt, learnt_files):
    texts = [join(source) for source, _ in cipher_pairs()[1]]
    assert learnt.translate(texts) == opened(learnt_files, threads=2).translate(texts)


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(AccordError, match="cannot be loaded"):
        opened(tmp_path)


def test_without_the_library_the_extra_is_named(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(alignment, "import_module", missing)
    with pytest.raises(AccordError, match=r"accord\[smt\]"):
        alignment.thot("alignment")
