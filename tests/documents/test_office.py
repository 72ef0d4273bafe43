"""Word, PowerPoint, OpenDocument and EPUB: the text translated, the file otherwise the same."""

import io
import re
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from accord.documents import archive
from accord.documents.formats import open_document
from accord.errors import AccordError
from document_cases import ODF, W, docx, file_translated, odt, pptx, run, turned, unzipped, zipped


def word(body, **options):
    """The body of a Word file, translated."""
    found = unzipped(file_translated("x.docx", docx(body), **options))
    assert found["word/media/a.png"] == b"\x89PNG\0\1"
    text = found["word/document.xml"].decode()
    etree.fromstring(text.encode())
    return re.search("<w:body>(.*)</w:body>", text)[1]


def texts(xml):
    """Runs as text, with their properties in braces."""
    found = re.findall(r"<w:r>(?:<w:rPr>(.*?)</w:rPr>)?<w:t(?: [^>]*)?>(.*?)</w:t></w:r>", xml)
    return [f"{text}{{{properties}}}" if properties else text for properties, text in found]


BOLD = "<w:b/>"


def test_a_paragraph_is_translated_as_a_whole_and_keeps_its_formatting():
    body = f"<w:p><w:pPr><w:jc/></w:pPr>{run('one ')}{run('two', BOLD)}{run(' three four.')}</w:p>"
    assert texts(word(body)) == ["ONE ", "TWO{<w:b/>}", " THREE FOUR."]
    assert texts(word(body, answer=turned)) == ["four three ", "two{<w:b/>}", " one."]
    assert word(body).startswith("<w:p><w:pPr><w:jc/></w:pPr><w:r>")


def test_runs_that_only_a_spelling_checker_parts_are_one():
    lang = '<w:lang w:val="de"/>'
    body = f"<w:p>{run('o')}<w:proofErr/>{run('n', lang)}{run('e')}{run(' two')}</w:p>"
    assert [text.partition("{")[0] for text in texts(word(body))] == ["ONE TWO"]


def test_the_formatting_of_most_of_it_is_that_of_the_paragraph():
    body = f"<w:p>{run('a long beginning', BOLD)}{run(' end')}</w:p>"
    assert texts(word(body)) == ["A LONG BEGINNING {<w:b/>}", "END"]


def test_links_breaks_tabs_notes_and_pictures_stay():
    body = (
        f"<w:p>{run('see ')}<w:hyperlink w:anchor='x'>{run('the page')}</w:hyperlink>"
        "<w:r><w:footnoteReference w:id='2'/></w:r>"
        f"{run(' now.')}<w:r><w:br/></w:r>{run('next')}<w:r><w:tab/></w:r>{run('cell')}"
        "<w:bookmarkStart w:id='0'/><w:bookmarkEnd w:id='0'/></w:p>"
    )
    made = re.sub(r"<w:r><w:t(?: [^>]*)?>(.*?)</w:t></w:r>", r"\1", word(body))
    assert made == (
        '<w:p>SEE <w:hyperlink w:anchor="x">THE PAGE</w:hyperlink>'
        '<w:r><w:footnoteReference w:id="2"/></w:r> NOW.<w:r><w:br/></w:r>NEXT<w:r><w:tab/></w:r>'
        'CELL<w:bookmarkStart w:id="0"/><w:bookmarkEnd w:id="0"/></w:p>'
    )


def field(result):
    kinds = [f'<w:r><w:fldChar w:fldCharType="{x}"/></w:r>' for x in ("begin", "separate", "end")]
    return f"{kinds[0]}<w:r><w:instrText>PAGE</w:instrText></w:r>{kinds[1]}{run(result)}{kinds[2]}"


def test_fields_stay_whole_and_as_they_are():
    made = word(f"<w:p>{run('page ')}{field('x7')}{run(' of ten')}</w:p>")
    assert field("x7") in made
    assert texts(made) == ["PAGE ", "x7", " OF TEN"]
    [begin, *_, end] = re.findall("<w:r>.*?</w:r>", field("x"))
    made = word(f"<w:p>{begin}{run('contents')}</w:p><w:p>{run('a')}{end}{run('b')}</w:p>")
    assert texts(made) == ["contents", "a", "B"]


def test_text_boxes_tables_and_content_controls_are_read_too():
    inside = (
        f"<w:r><w:drawing><w:txbxContent><w:p>{run('box')}</w:p></w:txbxContent></w:drawing></w:r>"
    )
    control = f"<w:sdt><w:sdtPr><w:id/></w:sdtPr><w:sdtContent>{run('two')}</w:sdtContent></w:sdt>"
    body = f"<w:tbl><w:tc><w:p>{run('one ')}{inside}{control}</w:p></w:tc></w:tbl>"
    made = word(body)
    assert texts(made) == ["ONE ", "BOX", "TWO"]
    assert "<w:sdt><w:sdtPr><w:id/></w:sdtPr><w:sdtContent><w:r>" in made


def test_what_was_deleted_is_not_translated():
    body = f"<w:p>{run('a')}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
    assert "<w:delText>gone</w:delText>" in word(body)


def test_headers_and_notes_are_translated_and_all_else_is_byte_for_byte_as_it_was():
    part = f'<w:ftr xmlns:w="{W}"><w:p>{run("foot")}</w:p></w:ftr>'
    members = {"word__footer2_xxml": part, "word__document_xxml": part.replace("ftr", "document")}
    members |= {"word__styles_xxml": "<a  b = 'c'/>", "mimetype": "x"}
    found = unzipped(file_translated("x.docx", zipped(**members)))
    assert list(found) == ["word/footer2.xml", "word/document.xml", "word/styles.xml", "mimetype"]
    assert b"FOOT" in found["word/footer2.xml"]
    assert found["word/styles.xml"] == b"<a  b = 'c'/>"


def test_presentations():
    body = (
        '<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="de"/><a:t>one </a:t></a:r><a:r><a:rPr b="1"/>'
        "<a:t>two</a:t></a:r><a:br/><a:r><a:t>three</a:t></a:r>"
        '<a:fld id="x"><a:t>5</a:t></a:fld><a:endParaRPr lang="de"/></a:p>'
    )
    found = unzipped(file_translated("x.pptx", pptx(body)))["ppt/slides/slide1.xml"].decode()
    made = re.search("<a:p>.*</a:p>", found)[0]
    assert made == (
        '<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="de"/><a:t>ONE </a:t></a:r><a:r><a:rPr b="1"/>'
        '<a:t>TWO</a:t></a:r><a:br/><a:r><a:rPr lang="de"/><a:t>THREE</a:t></a:r>'
        '<a:fld id="x"><a:t>5</a:t></a:fld><a:endParaRPr lang="de"/></a:p>'
    )


def opendocument(body, **options):
    found = unzipped(file_translated("x.odt", odt(body), **options))
    assert next(iter(found)) == "mimetype"
    return re.search(f"{re.escape(ODF)}>(.*)</office", found["content.xml"].decode())[1]


def test_opendocument():
    note = "<text:note><text:note-body><text:p>note</text:p></text:note-body></text:note>"
    body = (
        '<text:h>head</text:h><text:p>one <text:span text:style-name="B">two</text:span> three'
        f'{note} four<text:line-break/>five<text:s text:c="3"/>six <text:a>link</text:a>'
        "<text:page-number>7</text:page-number></text:p>"
    )
    assert opendocument(body) == (
        '<text:h>HEAD</text:h><text:p>ONE <text:span text:style-name="B">TWO</text:span> THREE'
        f'{note.replace("note<", "NOTE<")} FOUR<text:line-break/>FIVE <text:s text:c="2"/>SIX '
        "<text:a>LINK</text:a><text:page-number>7</text:page-number></text:p>"
    )
    body = '<text:p>one <text:span text:style-name="B">two</text:span> three.</text:p>'
    expected = '<text:p>three <text:span text:style-name="B">two</text:span> one.</text:p>'
    assert opendocument(body, answer=turned) == expected
    gone = "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
    assert gone in opendocument(f"{gone}<text:p>a</text:p>")


def test_books():
    page = "<?xml version='1.0'?><html><body><p>one <i>two</i></p></body></html>"
    found = unzipped(file_translated("x.epub", zipped(mimetype="x", a_xxhtml=page, b_xopf="<c/>")))
    assert found["a.xhtml"].decode() == page.replace("one", "ONE").replace("two", "TWO")
    assert found["b.opf"] == b"<c/>"
    page = (
        '<html><title/><script src="x"/><p>a <a id="y"/>b<i translate="no"/> c</p><![CDATA[a>b]]>'
    )
    label = "<navLabel><text>one</text></navLabel>"
    found = unzipped(file_translated("x.epub", zipped(a_xhtml=page, toc_xncx=label)))
    expected = page.replace("a <a", "A <a").replace(">b<", ">B<").replace(" c<", " C<")
    assert found["a.html"].decode() == expected
    assert found["toc.ncx"].decode() == label.replace("one", "ONE")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.docx", b"", "no whole, readable ZIP"),
        ("x.docx", b"PK\3\4 broken", "no whole, readable ZIP"),
        ("x.docx", zipped(a="b"), "no text where this format has it"),
        ("x.docx", zipped(word__document_xxml="<a>"), "not well-formed XML"),
        (
            "x.odt",
            zipped(content_xxml="<!DOCTYPE a [<!ENTITY b 'c'>]><a>&d;</a>"),
            "not well-formed",
        ),
        ("x.pdf", b"%PDF", "files of the kind '.pdf' cannot be translated"),
        ("x", b"", "files of the kind '' cannot"),
    ],
)
def test_files_that_cannot_be_read_are_told_with_a_remedy(name, data, words):
    with pytest.raises(AccordError, match=re.escape(words)) as error:
        open_document(name, data)
    assert error.value.fix
    assert error.value.where == name


def test_archives_that_are_too_large_or_have_a_member_twice(monkeypatch):
    monkeypatch.setattr(archive, "_MOST_BYTES", 1000)
    with pytest.raises(AccordError, match="more than 1,000 bytes when unpacked"):
        open_document("x.odt", odt("<text:p>a</text:p>" * 500))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as twice:
        twice.writestr("content.xml", "<a/>")
        with pytest.warns(UserWarning, match="Duplicate"):
            twice.writestr("content.xml", "<b/>")
    with pytest.raises(AccordError, match="some twice"):
        open_document("x.odt", made.getvalue())


def test_entities_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    xml = (
        f'<!DOCTYPE a [<!ENTITY b SYSTEM "{secret}">]>'
        f"<office:document-content {ODF}><text:p>one &b; two</text:p></office:document-content>"
    )
    found = unzipped(file_translated("x.odt", zipped(content_xxml=xml)))["content.xml"]
    assert b"secret</" not in found
    assert b"SECRET" not in found


WHOLE = {
    "x.docx": docx(f"<w:p>{run('one ')}{run('two', BOLD)}{field('3')}</w:p>" * 3),
    "x.odt": odt("<text:p>one <text:span>two</text:span></text:p>" * 3),
    "x.epub": zipped(a_xxhtml="<p>one <b>two</b></p>" * 3),
}


@pytest.mark.parametrize("name", WHOLE)
@given(data=st.data())
@settings(max_examples=60)
def test_damaged_files_are_refused_or_translated_but_never_crash(name, data):
    damaged = bytearray(WHOLE[name])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = (
        damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged
    )
    try:
        made = file_translated(name, bytes(damaged))
    except AccordError:
        return
    unzipped(made)


_WORD_PARTS = st.recursive(
    st.sampled_from(
        [
            *(
                run("one. "),
                run("two", BOLD),
                field("3"),
                *re.findall("<w:r>.*?</w:r>", field("4")),
            ),
            *(
                "<w:r><w:br/></w:r>",
                "<w:r><w:tab/><w:t>x</w:t></w:r>",
                "<w:proofErr/>",
                "<!-- c -->",
            ),
        ]
    ),
    lambda inner: st.lists(inner, max_size=4).map("".join).map("<w:ins>{0}</w:ins>".format),
    max_leaves=8,
)


@given(st.lists(_WORD_PARTS, max_size=8).map("".join))
@settings(max_examples=60)
def test_no_text_and_no_element_is_ever_lost(inside):
    body = f"<w:p>{inside}</w:p>"

    def count(xml, name):
        return len(re.findall(f"<w:{name}[ />]", xml))

    def letters(xml):
        said = "".join(re.findall("<w:t(?: [^>]*)?>(.*?)</w:t>", xml))
        return sorted(re.findall("[a-z0-9]", said.lower()))

    for answer in (turned, None):
        made = word(body, **({"answer": answer} if answer else {}))
        for name in ("fldChar", "instrText", "br", "tab"):
            assert count(made, name) == count(body, name)
        assert letters(made) == letters(body)
