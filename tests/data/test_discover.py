"""What `accord init` finds: languages, pairs and formats, by names, by contents, by guessing."""

import gzip
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.data.discover import FoundText, discover
from accord.data.file_names import grouped_by_language, pair_in, role_of
from accord.errors import AccordError

TEXT = {
    "en": "The house stands at the end of a long street, and nobody has lived there for years.",
    "de": "Das Haus steht am Ende einer langen Straße, und seit Jahren wohnt dort niemand mehr.",
    "fr": "La maison se trouve au bout d'une longue rue, et personne n'y habite depuis des années.",
}


def lines(language, count=30):
    return "".join(f"{TEXT[language]} {n}\n" for n in range(count))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*names):
        for name in names:
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            code = next(c for c in TEXT if c in path.name.removesuffix(".gz").split(".")[-2:])
            data = lines(code).encode()
            path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)

    return write


def found(*paths):
    discovery = discover([Path(path) for path in paths] or [Path()])
    return {text.path: text.languages for text in discovery.texts}


def notes(*paths):
    return discover([Path(path) for path in paths] or [Path()]).notes


def failure(*paths):
    with pytest.raises(AccordError) as caught:
        discover([Path(path) for path in paths] or [Path()])
    return caught.value


# Names


@pytest.mark.parametrize(
    ("names", "pattern", "languages"),
    [
        ("c.en-de.en c.en-de.de", "c.en-de.{lang}", {"en", "de"}),
        ("train.de.gz train.en.gz", "train.{lang}.gz", {"en", "de"}),
        ("train_en.txt train_pt_BR.txt", "train_{lang}.txt", {"en", "pt_BR"}),
        ("x/en/a.txt x/fr/a.txt", "x/{lang}/a.txt", {"en", "fr"}),
        ("en/a.en de/a.de", "{lang}/a.{lang}", {"en", "de"}),
        ("a.zip::B.de-en.de a.zip::B.de-en.en", "a.zip::B.de-en.{lang}", {"de", "en"}),
        ("f.eng_Latn f.zho_Hant", "f.{lang}", {"eng_Latn", "zho_Hant"}),
    ],
)
def test_files_that_differ_in_the_language_alone_are_one_text(names, pattern, languages):
    (group,), alone = grouped_by_language(names.split())
    assert (group.pattern, set(group.files), alone) == (pattern, languages, [])


def test_the_last_code_of_a_name_counts_where_several_would_do():
    names = ["c.en-de.en", "c.en-de.de", "c.en-fr.en", "c.en-fr.fr", "notes.txt", "solo.en"]
    groups, alone = grouped_by_language(names)
    assert [(g.pattern, g.pair) for g in groups] == [
        ("c.en-de.{lang}", ("en", "de")),
        ("c.en-fr.{lang}", ("en", "fr")),
    ]
    assert alone == ["notes.txt", "solo.en"]
    assert pair_in("x/memory.fr-en.tsv") == ("fr", "en")
    assert pair_in("new-bin.tsv") is None  # three-letter codes that are words


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("c.en", "train"),
        ("train-*.parquet", "train"),
        ("dev.en", "dev"),
        ("IWSLT17.TED.dev2010.en-de.en.xml", "dev"),
        ("set/validation/data-*.arrow", "dev"),
        ("val.en.gz", "dev"),
        ("newstest2014.en", "test"),
        ("tst2010.en", "test"),
        ("devtest/europarl.en", "test"),
        ("test/train.en", "train"),  # the name before the folder
        ("protest.en", "train"),
    ],
)
def test_what_a_file_is_for(path, role):
    assert role_of(path) == role


# Directories


def test_a_directory_of_texts(here):
    here("c.en-de.en", "c.en-de.de", "sub/c.en-fr.en", "sub/c.en-fr.fr", "dev.en", "dev.de")
    Path("README.en").write_text("About")
    Path("notes.md").write_text("About")
    Path(".hidden.en").write_text("About")
    assert found() == {
        "c.en-de.{lang}": ("en", "de"),
        "dev.{lang}": ("de", "en"),
        "sub/c.en-fr.{lang}": ("en", "fr"),
    }
    assert notes() == ()
    assert list(found("sub")) == ["sub/c.en-fr.{lang}"]
    assert list(found("dev.en", "dev.de")) == ["dev.{lang}"]


def test_stores_and_runs_are_no_text_of_the_user(here):
    here("c.en", "c.de", "runs/x/held_out/a.en", "runs/x/held_out/a.de")
    here("stores/x/0/dev/a.en", "stores/x/0/dev/a.de", "mine/d.en", "mine/d.de")
    for name in ("runs/x/experiment.yaml", "runs/x/environment.json", "stores/x/stamps.json"):
        Path(name).write_text("{}")
    Path("mine/experiment.yaml").write_text("name: mine")
    assert list(found()) == ["c.{lang}", "mine/d.{lang}"]


def test_a_text_that_lies_there_twice_counts_once(here):
    here("c.en", "c.de", "c.en.gz", "c.de.gz")
    assert list(found()) == ["c.{lang}"]
    assert notes() == ("c.{lang}.gz: left out, since c.{lang} is there as well",)


def test_what_has_no_counterpart_is_noted(here):
    here("c.en", "c.de", "d.fr", "e.en", "e.de.gz")
    assert list(found()) == ["c.{lang}"]
    assert [note.split(":")[0] for note in notes()] == ["d.fr", "e.de.gz", "e.en"]
    assert "compress them alike" in notes()[0]


def test_a_file_in_another_language_than_its_name_says(here):
    here("c.en", "c.de")
    Path("c.fr").write_text(lines("en"))
    (note,) = notes()
    assert note.startswith("c.fr looks like en, not fr")


def test_languages_that_no_name_says_are_guessed_for_the_remedy(here):
    Path("english.txt").write_text(lines("en"))
    Path("german.txt").write_text(lines("de"))
    error = failure()
    assert "english.txt looks like en, german.txt looks like de" in error.what
    assert "mv english.txt corpus.en; mv german.txt corpus.de" in error.fix


def test_nothing_at_all(here):
    assert failure().what == "no parallel text was found"
    assert failure("none").what == "there is no such file or directory"
    assert failure("hf:owner/books").fix == "fetch it first: accord fetch hf:owner/books"


# One file of several languages


def one(path):
    (text,) = discover([Path(path)]).texts
    return text


def rows(count=30):
    return [(f"{TEXT['en']} {n}", f"{TEXT['de']} {n}") for n in range(count)]


def test_columns_of_a_tsv_file_are_told_by_their_language(here):
    Path("a.tsv").write_text("".join(f"{en}\t{de}\n" for en, de in rows()))
    assert one("a.tsv") == FoundText("a.tsv", ("en", "de"), "tsv", (("en", 0), ("de", 1)))
    Path("b.tsv").write_text(
        "".join(f"{n}\thttp://x/{n}\t{de}\t{en}\n" for n, (en, de) in enumerate(rows()))
    )
    assert one("b.tsv") == FoundText("b.tsv", ("de", "en"), "tsv", (("de", 2), ("en", 3)))
    Path("c.de-en.tsv").write_text("".join(f"{n} a\t{n} b\n" for n in range(30)))
    assert set(one("c.de-en.tsv").languages) == {"de", "en"}  # too short to tell: the name says
    Path("d.tsv").write_text("only one column\n")
    assert "fewer than two languages" in notes("a.tsv", "d.tsv")[0]
    assert "d.tsv: left out" in failure("d.tsv").what
    Path("e.tsv").write_text("en\tde\n" + Path("a.tsv").read_text())
    assert notes("e.tsv") == (
        "e.tsv: its first line looks like a heading; take it out, it is read as text",
    )


def test_keys_of_json_lines(here):
    record = {"translation": dict(TEXT)}
    Path("a.jsonl").write_text(json.dumps(record) + "\n")
    assert one("a.jsonl").languages == ("en", "de", "fr")
    Path("b.jsonl").write_text(json.dumps({"en": "a", "de": "b", "id": 7}) + "\n")
    assert one("b.jsonl").languages == ("en", "de")
    Path("c.jsonl").write_text("{")
    assert "not valid JSON" in failure("c.jsonl").what


def test_languages_of_a_translation_memory(here):
    unit = '<tu><tuv xml:lang="EN-GB"><seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    Path("a.tmx").write_text(f"<tmx><body>{unit}</body></tmx>")
    assert one("a.tmx").languages == ("de", "en")


def test_tables(here):
    en, de = zip(*rows(), strict=True)
    pairs = [{"en": a, "de": b} for a, b in rows()]
    kind = pa.struct({"en": pa.string(), "de": pa.string()})
    for name in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"):
        pq.write_table(pa.table({"translation": pa.array(pairs, kind)}), f"{name}.parquet")
    assert found() == {"train-*.parquet": ("en", "de"), "validation-*.parquet": ("en", "de")}
    note = pa.array([None] * len(en), pa.string())
    table = pa.table({"target": pa.array(de), "source": pa.array(en), "note": note})
    pq.write_table(table, "named.parquet")
    assert one("named.parquet") == FoundText(
        "named.parquet", ("de", "en"), "parquet", (("de", "target"), ("en", "source"))
    )


def test_a_zip_of_opus(here):
    with zipfile.ZipFile("de-en.txt.zip", "w") as archive:
        for name, text in {
            "README": "x",
            "B.de-en.de": lines("de"),
            "B.de-en.en": lines("en"),
        }.items():
            archive.writestr(name, text)
    Path("x.tar.gz").write_bytes(b"")
    assert found() == {"de-en.txt.zip::B.de-en.{lang}": ("de", "en")}
    assert notes() == ("x.tar.gz: left out; unpack it, or name its members by hand (::)",)
    with zipfile.ZipFile("tables.zip", "w") as archive:
        archive.writestr("a.parquet", "PAR1")
    assert any("tables.zip::a.parquet: left out: a parquet file must lie" in n for n in notes())
    Path("bad.zip").write_bytes(b"no zip")
    assert "no zip archive" in failure("bad.zip").what
