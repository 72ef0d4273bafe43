"""Plain text, subtitles, catalogues and Markdown."""

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from accord.documents.formats import open_document
from accord.errors import AccordError
from document_cases import file_translated, shouted, turned


def made(name, text, **options):
    return file_translated(name, text, **options).decode()


def test_text_keeps_its_lines_and_spaces():
    assert made("x.txt", "one.  two\r\n\r\n---\r\n\tthree") == "ONE.  TWO\r\n\r\n---\r\n\tTHREE"
    assert file_translated("x.txt", "grün".encode("utf-16")) == "GRÜN".encode("utf-16")
    for name, wrong, words in (
        ("x.txt", b"\xff\xfe\xff", "the encoding 'utf-16' is not that of the text"),
        ("x.txt", b"a\0b", "NUL"),
        ("x.html", b"<meta charset=punycode>", "'punycode' is unknown"),
        ("x.html", b"<meta charset=zlib>", "'zlib' is unknown"),
    ):
        with pytest.raises(AccordError, match=words) as error:
            open_document(name, wrong)
        assert error.value.fix


SUBTITLES = """1
00:00:01,000 --> 00:00:04,000
a long <i>sentence</i>
in two lines.

2
00:00:05,000 --> 00:00:06,000
{\\an8}- hello & so
- yes.

3
00:00:07,000 --> 00:00:08,000
♪
"""


def test_subtitles_keep_their_times_and_lines():
    expected = SUBTITLES.replace("a long", "A LONG").replace("sentence", "SENTENCE")
    expected = expected.replace("in two lines", "IN TWO LINES").replace("hello & so", "HELLO & SO")
    assert made("x.srt", SUBTITLES) == expected.replace("yes", "YES")
    assert made("x.srt", SUBTITLES.replace("\n", "\r\n")).count("\r\n") == SUBTITLES.count("\n")
    asked = []
    file_translated("x.srt", SUBTITLES, answer=lambda x: asked.extend(x) or shouted(x))
    assert [x.text for x in asked] == ["a long sentence in two lines.", "hello & so", "yes."]
    turned_lines = made("x.srt", SUBTITLES, answer=turned).splitlines()[2:4]
    assert turned_lines == ["lines two in", "<i>sentence</i> long a."]


def test_a_file_without_subtitles_is_refused():
    with pytest.raises(AccordError, match="no subtitle"):
        open_document("x.srt", b"1\n2\n")


CATALOGUE = """# comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=0;\\n"

msgid "open %s now"
msgstr ""

msgid "done"
msgstr "fertig"

#, python-format
msgid "%(n)d file"
msgid_plural "%(n)d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgctxt "menu"
msgid "see {name}, <b>good</b> day.\\nbye"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
"""


def test_catalogues_get_what_they_lack_marked_as_fuzzy():
    found = polib.pofile(made("x.po", CATALOGUE))
    assert found.metadata["Language"] == "fr"
    entries = {entry.msgid: entry for entry in found}
    assert entries["open %s now"].msgstr == "OPEN %s NOW"
    assert entries["open %s now"].fuzzy
    assert (entries["done"].msgstr, entries["done"].fuzzy) == ("fertig", False)
    assert entries["%(n)d file"].msgstr_plural == {
        0: "%(n)d FILE",
        1: "%(n)d FILES",
        2: "%(n)d FILES",
    }
    assert entries["see {name}, <b>good</b> day.\nbye"].msgstr == (
        "SEE {name}, <b>GOOD</b> DAY.\nBYE"
    )
    assert entries["old"].msgstr == "alt"
    assert made("x.po", made("x.po", CATALOGUE)) == made("x.po", CATALOGUE)


def test_catalogues_that_are_none(tmp_path):
    with pytest.raises(AccordError, match="no catalogue of messages"):
        open_document("x.po", b'msgid "a\nb c d')
    secret = tmp_path / "x.po"
    secret.write_text('msgid "a secret"\nmsgstr ""\n')
    with pytest.raises(AccordError):  # a file's name is not a way to read that file
        open_document("x.po", str(secret).encode())


MARKDOWN = """---
title: stays
---
# a *title* here #

very **important** and `f(x)` too,
a [link](http://x/y "Title") in two
lines. a picture ![alt](b.png) there.

- point one\\
  next
- point <b>two</b> & three
  1. inside

> a quotation
> in lines

```
code stays
```

| head | two |
|---|---|
| a word | `x` |

<div>html stays</div>

see [that][ref], <http://auto/> and snake_case.

[ref]: http://ref/ "t"
"""
TRANSLATED = """---
title: stays
---
# A *TITLE* HERE #

VERY **IMPORTANT** AND `f(x)` TOO, A [LINK](http://x/y "Title") IN TWO LINES. A PICTURE \
![alt](b.png) THERE.

- POINT ONE\\
  NEXT
- POINT <b>TWO</b> & THREE
  1. INSIDE

> A QUOTATION IN LINES

```
code stays
```

| HEAD | TWO |
|---|---|
| A WORD | `x` |

<div>html stays</div>

SEE [THAT](http://ref/ "t"), <http://auto/> AND SNAKE_CASE.

[ref]: http://ref/ "t"
"""


def test_markdown_keeps_its_structure():
    assert made("x.md", MARKDOWN) == TRANSLATED
    windows = made("x.md", MARKDOWN.replace("\n", "\r\n"))
    assert "# A *TITLE* HERE #\r\n\r\nVERY" in windows
    assert made("x.md", "one **two** three.", answer=turned) == "three **two** one."


@pytest.mark.parametrize(
    "said", ["# a", "1. b", "- c", "*d*", "> e", "`f`", "[g](h)", "&lt;", "<i>"]
)
def test_words_that_look_like_markdown_stay_words(said):
    """What a model writes is text, whatever it looks like."""
    from accord.documents.translation import Translated

    text = made("x.md", "x", answer=lambda sentences: [Translated(said)])
    [_, inline, _] = MarkdownIt("commonmark").parse(text)
    assert [token.type for token in inline.children] == ["text"]
    assert inline.children[0].content == said


_INLINE = st.sampled_from(
    ["*", "**", "`", "[", "](x)", "a", "b c", " ", "_", "\\", "<b>", "</b>", "\n", "  \n", "&amp;"]
)
_BLOCK = st.sampled_from(
    ["- ", "1. ", "> ", "# ", "", "\n", "    ", "```\n", "| a | b |\n|---|---|\n| "]
)


@given(st.lists(st.tuples(_BLOCK, st.lists(_INLINE, max_size=8).map("".join)), max_size=5))
def test_the_blocks_of_markdown_are_the_same_afterwards(parts):
    text = "\n".join(f"{block}{inside}" for block, inside in parts)
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])

    def blocks(source):
        return [token.type for token in parser.parse(source) if token.type != "inline"]

    assert blocks(made("x.md", text, answer=turned)) == blocks(text)
