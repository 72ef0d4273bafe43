import gzip
import io
import json
import lzma
import tarfile
import zipfile
from pathlib import Path
from typing import get_args

import pytest

from accord.data.formats import Format, read_pair, read_side, source_files
from accord.errors import AccordError

DE_EN = ("de", "en")


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return str(path)


# One file per language


def test_plain_text_pairs(tmp_path: Path) -> None:
    write(tmp_path / "a.de", "eins\n\n zwei \r\n" + "x" * 1_500_000 + "\n")
    write(tmp_path / "a.en", "one\n\ntwo\nlong\n")
    pairs = list(read_pair(f"{tmp_path}/a.{{lang}}", DE_EN))
    assert pairs == [("eins", "one"), ("", ""), ("zwei", "two"), (None, "long")]
    assert list(read_side(f"{tmp_path}/a.{{lang}}", "en")) == ["one", "", "two", "long"]


def test_empty_files_have_no_pairs(tmp_path: Path) -> None:
    write(tmp_path / "a.de", "")
    write(tmp_path / "a.en", "")
    assert list(read_pair(f"{tmp_path}/a.{{lang}}", DE_EN)) == []


def test_every_place_of_the_language_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATA", str(tmp_path))
    for language in DE_EN:
        write(tmp_path / language / f"a.{language}.txt.xz", f"{language}\n")
    path = "${DATA}/{lang}/a.{lang}.txt.xz"
    assert list(read_pair(path, DE_EN)) == [("de", "en")]
    assert source_files(path, ["en", "de", "en"]) == [
        tmp_path / "de/a.de.txt.xz",
        tmp_path / "en/a.en.txt.xz",
    ]


def test_unequal_files_give_both_counts_and_names(tmp_path: Path) -> None:
    write(tmp_path / "a.de", "eins\nzwei\n\nvier\n")
    write(tmp_path / "a.en", "one\ntwo\nthree\nfour\nfive\nsix\n")
    with pytest.raises(AccordError) as caught:
        list(read_pair(f"{tmp_path}/a.{{lang}}", DE_EN))
    message = str(caught.value)
    assert f"de has 4 lines ({tmp_path}/a.de)" in message
    assert f"en has 6 lines ({tmp_path}/a.en)" in message
    assert "first suspicious line 3" in message


@pytest.mark.parametrize(
    ("path", "given", "message"),
    [
        ("a.{lang}.{set}", "auto", "braces other than {lang}"),
        ("a.{LANG}", "text", "braces other than {lang}"),
        ("a.de", "text", r"write \{lang\} in place of the language"),
        ("train.tags.de-en.de", "auto", r"write \{lang\} in place of the language"),
        ("a.txt", "auto", f"one of {', '.join(get_args(Format)[1:])}"),
        ("a.{lang}.tsv", "auto", "a tsv file holds both languages"),
        ("a.{lang}", "tmx", "a tmx file holds both languages"),
    ],
)
def test_paths_and_formats_must_go_together(
    tmp_path: Path, path: str, given: Format, message: str
) -> None:
    with pytest.raises(AccordError, match=message):
        read_pair(f"{tmp_path}/{path}", DE_EN, format=given)
    with pytest.raises(AccordError, match=message):
        source_files(f"{tmp_path}/{path}", DE_EN, format=given)


def test_R11_a_missing_side_names_the_expected_file(tmp_path: Path) -> None:
    write(tmp_path / "europarl-v7.de-en.en", "x\n")
    write(tmp_path / "europarl-v7.de-en.de.gz", "x\n")
    with pytest.raises(AccordError) as caught:  # at once, before anything is read
        read_pair(f"{tmp_path}/europarl-v7.de-en.{{lang}}", DE_EN)
    assert caught.value.where == str(tmp_path / "europarl-v7.de-en.de")
    assert "europarl-v7.de-en.de.gz" in str(caught.value.fix)


def test_R11_a_tree_laid_out_like_the_originals(tmp_path: Path) -> None:
    for language in DE_EN:
        write(tmp_path / f"europarl/training/europarl-v7.de-en.{language}", f"{language} 1\n")
        write(
            tmp_path / f"iwslt/de-en/train.tags.de-en.{language}",
            f"<url>x</url>\n<title>{language} title</title>\n{language} 1\n",
        )
        write(
            tmp_path / f"iwslt/de-en/IWSLT17.TED.dev2010.de-en.{language}.xml",
            f'<refset><doc><title>t</title><seg id="1"> {language} dev </seg></doc></refset>',
        )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for language in ("en", "fr"):
            info = tarfile.TarInfo(f"en-fr/UNv1.0.en-fr.{language}")
            info.size = 5
            archive.addfile(info, io.BytesIO(f"{language} 1\n".encode()))
    data = buffer.getvalue()
    for index, part in enumerate((data[:100], data[100:])):
        (tmp_path / f"UNv1.0.en-fr.tar.gz.0{index}").write_bytes(part)

    europarl = f"{tmp_path}/europarl/training/europarl-v7.de-en.{{lang}}"
    assert list(read_pair(europarl, DE_EN)) == [("de 1", "en 1")]
    iwslt = f"{tmp_path}/iwslt/de-en/train.tags.de-en.{{lang}}"
    assert list(read_pair(iwslt, DE_EN)) == [("de title", "en title"), ("de 1", "en 1")]
    dev = f"{tmp_path}/iwslt/de-en/IWSLT17.TED.dev2010.de-en.{{lang}}.xml"
    assert list(read_pair(dev, DE_EN)) == [("de dev", "en dev")]
    assert list(read_side(dev, "de")) == ["de dev"]
    un = f"{tmp_path}/UNv1.0.en-fr.tar.gz.00::en-fr/UNv1.0.en-fr.{{lang}}"
    assert list(read_pair(un, ("en", "fr"))) == [("en 1", "fr 1")]
    volumes = [tmp_path / "UNv1.0.en-fr.tar.gz.00", tmp_path / "UNv1.0.en-fr.tar.gz.01"]
    assert source_files(un, ("en", "fr")) == volumes


def test_T19_both_sides_of_iwslt_must_have_equal_counts(tmp_path: Path) -> None:
    write(tmp_path / "train.tags.de-en.de", "<title>T</title>\n<talkid>1</talkid>\neins\n")
    write(tmp_path / "train.tags.de-en.en", "<title>T</title>\n<url>u</url>\n<url>v</url>\none\n")
    path = f"{tmp_path}/train.tags.de-en.{{lang}}"
    assert list(read_pair(path, DE_EN)) == [("T", "T"), ("eins", "one")]
    write(tmp_path / "train.tags.de-en.en", "<title>T</title>\none\ntwo\n")
    with pytest.raises(AccordError, match="de has 2 segments") as caught:
        list(read_pair(path, DE_EN))
    assert "en has 3 segments" in str(caught.value)


# Tab-separated


def test_tsv_columns_by_position(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv.gz", '\ufeffeins\t"one"\r\n\tempty\nzwei \t two\tmore\n')
    assert list(read_pair(file, DE_EN)) == [("eins", '"one"'), ("", "empty"), ("zwei", "two")]


def test_tsv_columns_by_name(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "one\t0.9\teins\n" + "x" * 1_500_000 + "\n")
    pairs = read_pair(file, DE_EN, format="tsv", columns={"en": 0, "de": 2})
    assert list(pairs) == [("eins", "one"), (None, None)]


def test_tsv_errors(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "a\tb\nc\n")
    with pytest.raises(AccordError, match="1 columns, but 2 are needed") as caught:
        list(read_pair(file, DE_EN))
    assert caught.value.where == f"{file}, line 2"
    for columns in ({"en": 0}, {"en": 0, "de": -1}):
        with pytest.raises(AccordError, match="does not say which column is de"):
            read_pair(file, DE_EN, columns=columns)
    with pytest.raises(AccordError, match="columns were given, but the format is jsonl"):
        read_pair(file, DE_EN, format="jsonl", columns={"en": 0, "de": 1})
    with pytest.raises(AccordError, match="as a pair"):
        read_side(file, "de")


# JSON lines


def test_jsonl_pairs(tmp_path: Path) -> None:
    records = [
        {"id": 1, "translation": {"en": "one", "de": "eins", "fr": "un"}},
        {"en": " two\nlines ", "de": "zwei\r\nZeilen", "fr": "deux"},
        {"en": "a\u2028b", "de": "", "fr": "trois"},
    ]
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    file = write(tmp_path / "a.jsonl", text + "\n  \n")
    assert list(read_pair(file, DE_EN)) == [
        ("eins", "one"),
        ("zwei Zeilen", "two lines"),
        ("", "a\u2028b"),
    ]
    assert list(read_side(file, "fr")) == ["un", "deux", "trois"]


def test_jsonl_lines_above_the_limit_are_none(tmp_path: Path) -> None:
    text = json.dumps({"en": "x" * 1_500_000, "de": "y"})
    assert list(read_pair(write(tmp_path / "a.ndjson", text), DE_EN)) == [(None, None)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"en": "a", "de": ', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('["a", "b"]', "not a JSON object"),
        ('{"translation": "a"}', "not a JSON object"),
        ('{"en": "a", "fr": "b"}', "no text for the language de; the keys are: en, fr"),
        ('{"en": "a", "de": 5}', "the de text is 5"),
        ('{"en": "a", "de": null}', "the de text is null"),
        ('{"en": "a", "de": "\\ud800"}', "surrogate"),
    ],
)
def test_jsonl_errors_are_located(tmp_path: Path, line: str, message: str) -> None:
    file = write(tmp_path / "a.jsonl", f'{{"en": "a", "de": "b"}}\n{line}\n')
    with pytest.raises(AccordError, match=message) as caught:
        list(read_pair(file, DE_EN))
    assert caught.value.where == f"{file}, line 2"


def test_jsonl_blank_lines_amid_records_are_an_error(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", '{"en": "a", "de": "b"}\n\n\n{"en": "a", "de": "b"}\n')
    with pytest.raises(AccordError, match="blank") as caught:
        list(read_pair(file, DE_EN))
    assert caught.value.where == f"{file}, line 2"


# Markup, by the name of the file


def test_tmx_by_name(tmp_path: Path) -> None:
    text = '<tmx><body><tu><tuv lang="de"><seg>a</seg></tuv><tuv lang="en"><seg>b</seg></tuv></tu>'
    file = write(tmp_path / "a.TMX.gz", text + "</body></tmx>")
    assert list(read_pair(file, DE_EN)) == [("a", "b")]
    with pytest.raises(AccordError, match="as a pair"):
        read_side(file, "de")


def test_one_test_set_with_source_and_reference(tmp_path: Path) -> None:
    text = '<doc><src lang="en"><seg>a</seg></src><ref lang="de"><seg>b</seg>{}</ref></doc>'
    file = write(tmp_path / "newstest2021.en-de.all.xml", text.format(""))
    assert list(read_pair(file, DE_EN)) == [("b", "a")]
    assert list(read_side(file, "en")) == ["a"]
    assert source_files(file, DE_EN) == [Path(file)]
    write(Path(file), text.format("<seg>c</seg>"))
    with pytest.raises(AccordError, match="de has 2 segments"):
        list(read_pair(file, DE_EN))


def test_a_given_format_overrules_the_name(tmp_path: Path) -> None:
    for language in DE_EN:
        write(tmp_path / f"a.{language}.xml", f"<p>{language}</p>\n")
    pairs = read_pair(f"{tmp_path}/a.{{lang}}.xml", DE_EN, format="text")
    assert list(pairs) == [("<p>de</p>", "<p>en</p>")]


# A zip of OPUS: two texts, and papers about them


def opus(path: Path, **members: str) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {"README": "read me", "LICENSE": "as you like", **members}.items():
            archive.writestr(name, text)
    return str(path)


def test_a_zip_with_two_texts_is_a_corpus(tmp_path: Path) -> None:
    members = {"Books.de-en.de": "eins\nzwei\n", "Books.de-en.en": "one\ntwo\n"}
    path = opus(tmp_path / "de-en.txt.zip", **members)
    for written in (path, f"{path}::*.{{lang}}", f"{path}::Books.de-en.{{lang}}"):
        assert list(read_pair(written, DE_EN)) == [("eins", "one"), ("zwei", "two")]
    assert list(read_side(path, "en")) == ["one", "two"]
    assert source_files(path, DE_EN) == [tmp_path / "de-en.txt.zip"]
    with pytest.raises(AccordError, match=r"no member \*\.fr"):
        list(read_pair(path, ("de", "fr")))


def test_a_zip_with_two_corpora_is_refused_with_a_choice(tmp_path: Path) -> None:
    members = {f"{name}.{lang}": "x\n" for name in ("a", "b") for lang in DE_EN}
    path = opus(tmp_path / "two.zip", **members)
    with pytest.raises(
        AccordError, match=r"2 members are named like \*\.de: a\.de, b\.de"
    ) as caught:
        list(read_pair(path, DE_EN))
    assert caught.value.fix == "name the one you mean: two.zip::a.de"
    with pytest.raises(AccordError, match="an archive holds texts but is none itself"):
        read_pair(path, DE_EN, format="tsv")
