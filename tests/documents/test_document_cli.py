"""`accord translate` with documents: what is written, what is refused, and when."""

import sys
from contextlib import contextmanager

import pytest

from accord.cli.documents import is_document, translate_document
from accord.cli.translate import translate
from accord.errors import AccordError
from accord.inference.results import SearchSettings
from document_cases import docx, run, unzipped
from serving_fakes import FakeTranslator


class Closing(FakeTranslator):
    closed = False

    def close(self):
        self.closed = True


def translated(path, output, translator=None):
    made = translator or Closing()
    translate_document(
        path,
        output,
        "fr",
        lambda: made,
        lambda model, texts: model.translate(texts, "fr", settings=SearchSettings()),
    )
    assert made.closed


def test_which_files_are_documents(tmp_path):
    documents = [tmp_path / f"x{ending}" for ending in (".docx", ".ODT", ".html", ".po", ".md")]
    assert all(map(is_document, documents))
    assert not any(map(is_document, [None, tmp_path / "x.txt", tmp_path / "x.de", tmp_path / "x"]))


def test_a_document_is_written_beside_its_source(tmp_path):
    path, output = tmp_path / "a.docx", tmp_path / "b.docx"
    path.write_bytes(docx(f"<w:p>{run('Das ist ein ')}{run('Haus', '<w:b/>')}</w:p>"))
    translated(path, output)
    assert b"fr: Das ist ein " in unzipped(output.read_bytes())["word/document.xml"]
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a.docx", "b.docx"]


def test_text_may_go_to_standard_output(tmp_path, capfdbinary):
    path = tmp_path / "a.html"
    path.write_text("<p>Das <b>Haus</b></p>")
    translated(path, None)
    found = capfdbinary.readouterr()
    assert found.out == b"<p>fr: Das <b>Haus</b></p>"
    assert b"sentences (1)" in found.err
    path.write_text("<p>…</p>")
    translated(path, None)
    assert b"there is no text to translate in it" in capfdbinary.readouterr().err


def test_nothing_is_written_when_the_translation_fails(tmp_path):
    path, output = tmp_path / "a.html", tmp_path / "b.html"
    path.write_text("<p>poison</p>")
    output.write_text("before")
    with pytest.raises(RuntimeError, match="secret of the model"):
        translated(path, output)
    assert output.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 2


@contextmanager
def refused(words):
    with pytest.raises(AccordError, match=words) as error:
        yield
    assert error.value.fix


def test_mistakes_are_told_before_a_model_is_opened(tmp_path):
    page, office = tmp_path / "a.html", tmp_path / "a.docx"
    page.write_text("<p>Haus</p>")
    office.write_bytes(b"PK")
    nowhere = tmp_path / "no run"
    with refused("cannot be written to a terminal"):
        translate(nowhere, "fr", input_file=office)
    with refused("no whole, readable ZIP"):
        translate(nowhere, "fr", input_file=office, output_file=tmp_path / "b.docx")
    with refused("keeps its format, and b.txt is not called .html"):
        translate(nowhere, "fr", input_file=page, output_file=tmp_path / "b.txt")
    with refused("cannot be read"):
        translate(nowhere, "fr", input_file=tmp_path / "none.html")
    with refused("a document has one translation"):
        translate(nowhere, "fr", input_file=page, as_json=True)
    with refused("no run directory"):
        translate(nowhere, "fr", input_file=page)


def test_catalogues_say_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "a.po"
    path.write_text('msgid "a"\nmsgstr ""\n')
    monkeypatch.setitem(sys.modules, "polib", None)
    with refused("catalogues need the package polib"):
        translate(tmp_path, "fr", input_file=path)
