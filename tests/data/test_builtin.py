import os
import random
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data import builtin
from accord.data.builtin import BuiltinCorpus, make, write
from accord.data.builtin_phrases import KINDS, LANGUAGES, Meaning, render
from accord.errors import AccordError

STAR = [("en", "de"), ("en", "fr"), ("cs", "en")]
FOUR = ("en", "de", "fr", "cs")

MARCH = Meaning("date", "full", (1998, 3, 3))
SHORT = Meaning("date", "long", (2024, 12, 31))
TEATIME = Meaning("time", values=(1, 14, 5))
DAYS = Meaning("duration", "duration-day", (5,))
DOLLARS = Meaning("money", "USD", (1000,))
KORUNAS = Meaning("money", "CZK", (221,))
HOUR = Meaning("duration", "duration-hour", (1,))
GRAMS = Meaning("measure", "mass-gram", (2,))
BOTH = Meaning("list", parts=(DAYS, GRAMS))
THREE = Meaning("list", parts=(DAYS, GRAMS, HOUR))

EXPECTED = {
    "en": {
        MARCH: "Tuesday, 3 March 1998",
        SHORT: "31 December 2024",
        TEATIME: "Tuesday 2:05 in the afternoon",
        DAYS: "5 days",
        DOLLARS: "1,000 US dollars",
        GRAMS: "2 grams",
        THREE: "5 days, 2 grams and 1 hour",
    },
    "de": {
        MARCH: "Dienstag, 3. März 1998",
        SHORT: "31. Dezember 2024",
        TEATIME: "Dienstag 2:05 nachmittags",
        DAYS: "5 Tage",
        DOLLARS: "1.000 US-Dollar",
        GRAMS: "2 Gramm",
        THREE: "5 Tage, 2 Gramm und 1 Stunde",
    },
    "fr": {
        MARCH: "mardi 3 mars 1998",
        SHORT: "31 décembre 2024",
        TEATIME: "mardi 2:05 de l’après-midi",
        DAYS: "5 jours",
        DOLLARS: "1 000 dollars des États-Unis",
        GRAMS: "2 grammes",
        THREE: "5 jours, 2 grammes et 1 heure",
    },
    "es": {
        MARCH: "martes, 3 de marzo de 1998",
        SHORT: "31 de diciembre de 2024",
        TEATIME: "martes 2:05 de la tarde",
        DAYS: "5 días",
        DOLLARS: "1.000 dólares estadounidenses",
        GRAMS: "2 gramos",
        THREE: "5 días, 2 gramos y 1 hora",
    },
    "it": {
        MARCH: "martedì 3 marzo 1998",
        SHORT: "31 dicembre 2024",
        TEATIME: "martedì 2:05 del pomeriggio",
        DAYS: "5 giorni",
        DOLLARS: "1.000 dollari statunitensi",
        GRAMS: "2 grammi",
        THREE: "5 giorni, 2 grammi e 1 ora",
    },
    "nl": {
        MARCH: "dinsdag 3 maart 1998",
        SHORT: "31 december 2024",
        TEATIME: "dinsdag 2:05 ’s middags",
        DAYS: "5 dagen",
        DOLLARS: "1.000 Amerikaanse dollar",
        GRAMS: "2 gram",
        THREE: "5 dagen, 2 gram en 1 uur",
    },
    "ro": {
        MARCH: "marți, 3 martie 1998",
        SHORT: "31 decembrie 2024",
        TEATIME: "marți 2:05 după-amiaza",
        DAYS: "5 zile",
        DOLLARS: "1.000 de dolari americani",
        GRAMS: "2 grame",
        THREE: "5 zile, 2 grame și 1 oră",
    },
    "ru": {
        MARCH: "вторник, 3 марта 1998 г.",
        SHORT: "31 декабря 2024 г.",
        TEATIME: "вторник, 2:05 дня",
        DAYS: "5 дней",
        DOLLARS: "1 000 долларов США",
        GRAMS: "2 грамма",
        THREE: "5 дней, 2 грамма и 1 час",
    },
    "cs": {
        MARCH: "úterý 3. března 1998",
        SHORT: "31. prosince 2024",
        TEATIME: "úterý 2:05 odpoledne",
        DAYS: "5 dnů",
        DOLLARS: "1 000 amerických dolarů",
        GRAMS: "2 gramy",
        THREE: "5 dnů, 2 gramy a 1 hodina",
    },
}

# 221 korunas, one hour and two grams: numbers bend to their nouns.
IN_WORDS = {
    "en": ("two hundred and twenty-one Czech korunas", "one hour", "two grams"),
    "de": ("zweihunderteinundzwanzig Tschechische Kronen", "eine Stunde", "zwei Gramm"),
    "fr": ("deux cent vingt et une couronnes tchèques", "une heure", "deux grammes"),
    "es": ("doscientas veintiuna coronas checas", "una hora", "dos gramos"),
    "it": ("duecentoventuno corone ceche", "un’ora", "due grammi"),
    "nl": ("tweehonderdeenentwintig Tsjechische kronen", "één uur", "twee gram"),
    "ro": ("două sute douăzeci și una de coroane cehe", "o oră", "două grame"),
    "ru": ("двести двадцать одна чешская крона", "один час", "два грамма"),
    "cs": ("dvě stě dvacet jedna českých korun", "jedna hodina", "dva gramy"),
}
NUMBER_501 = {
    "en": "five hundred and one",
    "de": "fünfhunderteins",
    "fr": "cinq cent un",
    "es": "quinientos uno",
    "it": "cinquecentouno",
    "nl": "vijfhonderdéén",
    "ro": "cinci sute unu",
    "ru": "пятьсот один",
    "cs": "pět set jedna",
}

# What may read the same as in English, the digits left out; all else would be a silent fallback.
SAME_AS_ENGLISH = {
    "fr": {"six", "minute", "minutes", "euro", "euros", "litre", "litres"},
    "es": {"euro", "euros"},
    "it": {"zero", "euro"},
    "nl": {"week", "euro", "gram", "kilogram"},
    "ro": {"zero", "euro", "gram", "kilogram"},
    "cs": {"euro", "gram", "kilogram"},
}


def sample(kind: str, count: int) -> list[Meaning]:
    kinds = [known for known in KINDS if known == kind]
    return list(islice(builtin._meanings(kinds, 1000, random.Random(3)), count))


def meanings_by_english(count: int) -> dict[str, Meaning]:
    meanings = islice(builtin._meanings(list(KINDS), 1000, random.Random(1)), count)
    return {render(meaning, "en"): meaning for meaning in meanings}


def small(**changes: object) -> BuiltinCorpus:
    arguments: dict[str, object] = {"seed": 1, "held_out": 40, "overlap": 0.5} | changes
    return make(FOUR, STAR, 200, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("language", LANGUAGES)
def test_phrases_are_right_in_each_language(language: str) -> None:
    assert {m: render(m, language) for m in EXPECTED[language]} == EXPECTED[language]
    assert render(Meaning("number", values=(501,)), language) == NUMBER_501[language]


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_in_words_agree_with_their_nouns(language: str) -> None:
    words = tuple(render(meaning, language, "words") for meaning in (KORUNAS, HOUR, GRAMS))
    assert words == IN_WORDS[language]


@pytest.mark.parametrize(
    ("language", "meaning", "text"),
    [
        ("es", Meaning("measure", "length-meter", (21,)), "veintiún metros"),
        ("es", Meaning("measure", "length-meter", (301,)), "trescientos un metros"),
        ("ro", Meaning("duration", "duration-minute", (1,)), "un minut"),
        ("ro", Meaning("duration", "duration-minute", (12,)), "douăsprezece minute"),
        ("ro", Meaning("duration", "duration-year", (12,)), "doisprezece ani"),
        ("ru", Meaning("duration", "duration-week", (42,)), "сорок две недели"),
        ("ru", Meaning("duration", "duration-week", (11,)), "одиннадцать недель"),
        ("cs", Meaning("money", "EUR", (1,)), "jedno euro"),
        ("cs", Meaning("money", "EUR", (2,)), "dvě eura"),
        ("cs", Meaning("measure", "length-meter", (10,)), "deset metrů"),
        ("de", Meaning("measure", "length-meter", (1,)), "ein Meter"),
        ("it", Meaning("duration", "duration-year", (1,)), "un anno"),
    ],
)
def test_agreement_beyond_the_common_case(language: str, meaning: Meaning, text: str) -> None:
    assert render(meaning, language, "words") == text


def test_a_list_of_two_has_the_word_for_and() -> None:
    assert render(BOTH, "de") == "5 Tage und 2 Gramm"
    assert render(BOTH, "cs", "words") == "pět dnů a dva gramy"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_speaks_every_language_and_never_falls_back_to_english(kind: str) -> None:
    singular_and_plural = [
        Meaning(of, name, (amount,))
        for of, name in builtin._LISTABLE
        for amount in (1, 2, 5)
        if of == kind
    ]
    meanings = list(dict.fromkeys(sample(kind, 1001) + singular_and_plural))
    english = [render(meaning, "en") for meaning in meanings]
    for language in LANGUAGES[1:]:
        texts = [render(meaning, language) for meaning in meanings]
        same = {text for text, model in zip(texts, english, strict=True) if text == model}
        nouns = {text.lstrip("0123456789, ") for text in same}
        assert nouns <= SAME_AS_ENGLISH.get(language, set()), language
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_is_clean(language: str) -> None:
    for kind in KINDS:
        for meaning in sample(kind, 300):
            for numbers in ("digits", "words"):
                text = render(meaning, language, numbers)
                assert not {"\u00a0", "\u202f", "\n", "\t"} & set(text)
                assert text == text.strip()
                assert not any(f"{unit}-" in text for unit in ("duration", "length", "mass"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_leave_no_digits_in_amounts(language: str) -> None:
    for kind, name in builtin._LISTABLE:
        for amount in (1, 2, 21, 100, 999, 1000, 1234, 19_999):
            text = render(Meaning(kind, name, (amount,)), language, "words")
            assert not set(text) & set("0123456789")


def test_dev_and_test_are_the_same_lines_in_all_languages() -> None:
    corpus = small(kinds=("date",))
    for split in (corpus.dev, corpus.test):
        assert tuple(split) == FOUR
        assert {len(lines) for lines in split.values()} == {40}
        # The digits of a date are the same in all these languages.
        digits = [["".join(filter(str.isdigit, line)) for line in split[name]] for name in FOUR]
        assert digits[0] == digits[1] == digits[2] == digits[3]


def test_train_lines_translate_each_other() -> None:
    corpus = small()
    everything = meanings_by_english(900)
    for (left, right), lines in corpus.train.items():
        assert len(lines) == 200
        for pair in lines:
            meaning = everything[pair[(left, right).index("en")]]
            assert pair == (render(meaning, left), render(meaning, right))


@pytest.mark.parametrize("numbers", ["digits", "words"])
def test_no_text_stands_in_two_splits_or_twice_in_one(numbers: str) -> None:
    corpus = small(numbers=numbers)
    for language in FOUR:
        sides = [
            [line[pair.index(language)] for line in lines]
            for pair, lines in corpus.train.items()
            if language in pair
        ]
        for lines in (*sides, corpus.dev[language], corpus.test[language]):
            assert len(set(lines)) == len(lines)
        train = {text for side in sides for text in side}
        assert not train & set(corpus.dev[language])
        assert not train & set(corpus.test[language])
        assert not set(corpus.dev[language]) & set(corpus.test[language])


def test_meanings_that_read_the_same_in_one_language_are_not_both_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ambiguous(meaning: Meaning, language: str, numbers: str) -> str:
        number = meaning.values[0]
        return f"{language} {number // 2 if language == 'fr' else number}"

    monkeypatch.setattr(builtin, "render", ambiguous)
    corpus = make(
        ("en", "fr"), [("en", "fr")], 30, seed=1, kinds=("number",), largest=99, held_out=10
    )
    french = [right for _, right in corpus.train["en", "fr"]] + corpus.dev["fr"] + corpus.test["fr"]
    assert len(set(french)) == 50


@settings(max_examples=25, deadline=None)
@given(overlap=st.floats(0, 1), lines=st.integers(1, 60))
def test_overlap_is_the_share_of_meanings_in_all_corpora(overlap: float, lines: int) -> None:
    corpus = make(FOUR, STAR, lines, seed=2, overlap=overlap, held_out=3)
    english = [{line[pair.index("en")] for line in pairs} for pair, pairs in corpus.train.items()]
    shared = set.intersection(*english)
    assert abs(len(shared) - overlap * lines) <= 1
    for index, side in enumerate(english):
        others = set().union(*(other for place, other in enumerate(english) if place != index))
        assert side & others == shared


def test_all_kinds_have_the_same_share_of_the_test_set() -> None:
    corpus = small(held_out=70)
    assert Counter(meanings_by_english(70)[line].kind for line in corpus.test["en"]) == Counter(
        dict.fromkeys(KINDS, 10)
    )


def test_a_kind_that_runs_out_is_spread_over_all_corpora() -> None:
    corpus = small(overlap=0, kinds=("number", "date"), largest=200, held_out=10)
    for pair, lines in corpus.train.items():
        numbers = [line for line in lines if not any(map(str.isdigit, line[pair.index("en")]))]
        assert 40 <= len(numbers) <= 80


def test_held_out_sets_do_not_depend_on_the_training_sets() -> None:
    few = make(FOUR, STAR, 20, seed=5, overlap=0, held_out=30)
    many = make(FOUR, STAR[:1], 300, seed=5, overlap=1, held_out=30)
    assert (few.dev, few.test) == (many.dev, many.test)


def test_the_seed_decides_everything() -> None:
    assert small() == small()
    assert small().test != small(seed=2).test


def test_the_same_on_every_machine() -> None:
    program = (
        "import hashlib; from accord.data.builtin import make;"
        "corpus = make(['en', 'ru'], [('en', 'ru')], 300, seed=7, held_out=50);"
        "print(hashlib.sha256(repr(corpus).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1
    assert len(digests.pop()) == 65


def test_importing_stays_cheap() -> None:
    program = (
        "import sys, accord.data.builtin; sys.exit(bool({'babel', 'num2words'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_meaning_can_be_used_and_one_more_is_an_error() -> None:
    def numbers(lines: int) -> BuiltinCorpus:
        return make(
            ("en", "de"), [("en", "de")], lines, seed=1, kinds=("number",), largest=50, held_out=5
        )

    assert len(numbers(41).train["en", "de"]) == 41
    with pytest.raises(AccordError, match=r"52 different lines .* only 51") as caught:
        numbers(42)
    assert "largest" in str(caught.value.fix)
    assert "kinds" in str(caught.value.fix)


def test_lists_run_over_all_arrangements_without_repetition() -> None:
    arrangements = [tuple(builtin._arrangement(index, 5, 3)) for index in range(60)]
    assert len(set(arrangements)) == 60
    assert all(len(set(items)) == 3 and max(items) < 5 for items in arrangements)


def test_shuffling_gives_each_index_once_in_another_order() -> None:
    shuffled = list(builtin._shuffled(50, random.Random(1)))
    assert sorted(shuffled) == list(range(50))
    assert shuffled != sorted(shuffled)


@pytest.mark.parametrize(
    ("languages", "pairs", "changes", "what"),
    [
        (("en", "xx"), [("en", "xx")], {}, "no language 'xx'"),
        (("en", "de"), [("en", "fr")], {}, "en-fr"),
        (("en", "de"), [("en", "en")], {}, "en-en"),
        (("en", "de"), [("en", "de"), ("en", "de")], {}, "en-de is named twice"),
        (("en", "de"), [("en", "de")], {"kinds": ("poem",)}, "no kind 'poem'"),
        (("en", "de"), [("en", "de")], {"largest": 0}, "largest number"),
        (("en", "de"), [("en", "de")], {"largest": 20_000}, "largest number"),
        (("en", "de"), [("en", "de")], {"overlap": 1.5}, "overlap"),
        (("en", "de"), [("en", "de")], {"held_out": -1}, "held-out"),
    ],
)
def test_mistakes_are_named(
    languages: tuple[str, ...], pairs: list[tuple[str, str]], changes: dict[str, object], what: str
) -> None:
    with pytest.raises(AccordError, match=what) as caught:
        make(languages, pairs, 10, seed=1, **changes)  # type: ignore[arg-type]
    assert caught.value.fix


def test_writing_gives_aligned_files(tmp_path: Path) -> None:
    corpus = small()
    paths = write(corpus, tmp_path / "made")
    names = {path.name for path in paths}
    assert {"train.en-de.en", "train.en-de.de", "train.cs-en.cs", "dev.fr", "test.cs"} <= names
    assert len(names) == len(paths) == 6 + 4 + 4
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == sorted(names)
    german = (tmp_path / "made" / "train.en-de.de").read_bytes()
    assert german.decode("utf-8") == "".join(f"{line[1]}\n" for line in corpus.train["en", "de"])
    assert b"\r" not in german
    assert (tmp_path / "made" / "test.cs").read_text("utf-8").splitlines() == corpus.test["cs"]


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    corpus = small()
    (tmp_path / "test.cs").write_text("my own test set\n")
    with pytest.raises(AccordError, match="other contents") as caught:
        write(corpus, tmp_path)
    assert "--force" in str(caught.value.fix)
    assert [path.name for path in tmp_path.iterdir()] == ["test.cs"]
    write(corpus, tmp_path, force=True)
    assert (tmp_path / "test.cs").read_text("utf-8").splitlines() == corpus.test["cs"]
    write(corpus, tmp_path)  # the same once more is no loss
