import json
import subprocess
import sys

import pytest

from accord.evaluation.records import Lines
from accord.evaluation.scores import (
    ScoringTask,
    mixed,
    off_target,
    score_directions,
    scoring_tasks,
)
from accord.graph import Direction

REFERENCES = (
    "The committee adopted the report without a vote.",
    "We shall meet again on Monday, at 9:30.",
    'He said: "I don\'t know what you mean."',
    "Prices rose by 3.5% in the first quarter of 2004.",
    "Thank you.",
)
HYPOTHESES = (
    "The committee adopted the report without any vote.",
    "we shall meet again Monday at 9:30.",
    'He said "I do not know what you mean".',
    "Prices rose 3.5% in the First quarter of 2004.",
    "Thanks.",
)
SOURCES = ("Der Ausschuss.", "Montag.", "Er sagte.", "Preise.", "Danke.")
LANGUAGES = ("de", "en", "es", "fr")


def scored(hypotheses=HYPOTHESES, target="en", **rest):
    direction = Direction("de", target)
    lines = Lines(direction, "supervised", "all", SOURCES, hypotheses, REFERENCES, **rest)
    (found,) = score_directions(ScoringTask((lines,), LANGUAGES))
    return found.scores


def sacrebleu(tmp_path, *options):
    (tmp_path / "ref").write_text("".join(f"{line}\n" for line in REFERENCES), "utf-8")
    (tmp_path / "hyp").write_text("".join(f"{line}\n" for line in HYPOTHESES), "utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-w", "4", *options]
    return json.loads(subprocess.check_output(command, cwd=tmp_path, stderr=subprocess.DEVNULL))


def test_scores_are_those_of_the_command_of_sacrebleu(tmp_path):
    found = scored()
    bleu, chrf = sacrebleu(tmp_path, "-m", "bleu", "chrf", "--confidence")
    lowercase = sacrebleu(tmp_path, "-m", "bleu", "-lc", "--confidence")
    for ours, theirs in ((found.bleu, bleu), (found.chrf, chrf), (found.bleu_lowercase, lowercase)):
        assert ours.name == theirs["name"]
        assert round(ours.score, 4) == theirs["score"]
        assert ours.signature == theirs["signature"]
        assert ours.verbose_score == theirs.get("verbose_score", "")
        assert ours.confidence_mean == pytest.approx(theirs["confidence_mean"], abs=2e-4)
        assert ours.confidence_var == pytest.approx(theirs["confidence_var"], abs=2e-4)
    assert found.bleu_lowercase.score > found.bleu.score


def test_the_signature_names_everything():
    signature = scored().bleu.signature
    assert signature.startswith(
        "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:"
    )
    assert "case:lc" in scored().bleu_lowercase.signature
    assert "tok:zh" in scored(target="zh").bleu.signature


def test_rates_of_a_direction():
    found = scored(hypotheses=(*REFERENCES[:3], "Preise.", "so so so"), nats=12.0, tokens=40)
    assert found.exact_match == 0.6
    assert found.copy_rate == 0.2
    assert found.repetition_rate == 0.2
    assert found.cross_entropy == 0.3
    assert found.cross_entropy_per_sentence == 2.4
    assert found.sentences == 5


def test_a_chain_of_translations_has_no_cross_entropy():
    found = scored(via=("fr",))
    assert found.cross_entropy is None
    assert found.name == "de-en.via-fr"


def test_length_ratio_is_that_of_bleu():
    found = scored()
    assert f"ratio = {found.length_ratio:.3f}" in found.bleu.verbose_score


ENGLISH = "The report was adopted by a large majority of the members."
GERMAN = "Der Bericht wurde von einer großen Mehrheit der Abgeordneten angenommen."
FRENCH = "Le rapport a été adopté par une grande majorité des députés."


def test_off_target_counts_sentences_that_are_long_enough():
    texts = [GERMAN, GERMAN, ENGLISH, FRENCH, "Guten Tag", "hello", ""]
    assert off_target(texts, "de", LANGUAGES) == (0.5, 4)
    assert off_target(["Guten Tag"], "de", LANGUAGES) == (None, 0)
    assert off_target(texts, "de_AT", ("de_AT", "en", "fr")) == (0.5, 4)


def test_off_target_knows_scripts_without_spaces():
    chinese = "委员会以多数票通过了这份报告。"
    assert off_target([chinese, ENGLISH], "zh", ("zh", "en")) == (0.5, 2)


def test_off_target_is_unknown_where_languages_are():
    assert off_target([GERMAN], "de", ()) == (None, 0)


LONG = {
    "de": "Die Stadt hat im vergangenen Jahr eine neue Brücke über den Fluss gebaut, damit die "
    "Menschen schneller zur Arbeit kommen.",
    "en": "The city built a new bridge across the river last year so that people can get to work "
    "faster than they did before.",
    "fr": "La ville a construit un nouveau pont sur le fleuve l'année dernière afin que les gens "
    "arrivent plus vite à leur travail.",
    "es": "La ciudad construyó el año pasado un puente nuevo sobre el río para que la gente llegue "
    "antes a su trabajo.",
}


def half_english(language, share=0.5):
    words, english = LONG[language].split(), LONG["en"].split()
    start, rest = words[: round(share * len(words))], english[round(share * len(english)) :]
    return " ".join([*start, *rest])


def test_a_sentence_in_one_language_is_not_mixed():
    assert mixed(list(LONG.values()), LANGUAGES) == (0.0, 4)


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_a_sentence_in_two_languages_is_mixed_and_mostly_on_target(language):
    """What the off-target rate does not see."""
    assert mixed([half_english(language), LONG[language]], LANGUAGES) == (0.5, 2)
    assert off_target([half_english(language, 0.6)], language, LANGUAGES)[0] == 0
    assert mixed([half_english(language, 0.6)], LANGUAGES)[0] == 1


def test_mixed_asks_for_two_parts_of_six_words():
    assert mixed([GERMAN, "Guten Tag", ""], LANGUAGES) == (None, 0)
    assert len(GERMAN.split()) < 12
    assert mixed([f"{GERMAN} {ENGLISH}"], LANGUAGES) == (1.0, 1)
    assert mixed([LONG["de"]], ()) == (None, 0)


def test_mixed_knows_scripts_without_spaces():
    chinese = "委员会以多数票通过了这份报告。"
    assert mixed([f"{chinese} {ENGLISH}", chinese], ("zh", "en")) == (0.5, 2)


def test_mixed_stands_beside_off_target():
    texts = (*HYPOTHESES[:4], f"{ENGLISH} {GERMAN}")
    found = scored(texts)
    assert (found.mixed, found.mixed_checked) == (1.0, 1)
    assert scored().mixed is None


def made(direction, references=REFERENCES, **rest):
    way = Direction.parse(direction)
    return Lines(way, "zero-shot", "all", SOURCES, HYPOTHESES, references, **rest)


def test_directions_into_the_same_text_are_scored_together():
    lines = [
        *(made("de-en"), made("de-fr"), made("fr-en"), made("es-en", HYPOTHESES)),
        made("fr-en", via=("de",)),
    ]
    names = [[item.name for item in task.lines] for task in scoring_tasks(lines, (), workers=1)]
    assert names == [["de-en", "fr-en", "fr-en.via-de"], ["de-fr"], ["es-en"]]


def test_no_worker_waits_while_there_are_directions_to_score():
    lines = [made(f"{source}-en") for source in ("de", "es", "fr", "it", "nl", "pt", "ro", "sv")]
    assert [len(task.lines) for task in scoring_tasks(lines, (), workers=3)] == [3, 3, 2]
    assert [len(task.lines) for task in scoring_tasks(lines, (), workers=50)] == [1] * 8
