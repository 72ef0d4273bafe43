import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from accord.data import markup
from accord.data.markup import one_line, read_iwslt, read_sgm, read_tmx, same_language
from accord.errors import AccordError


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def tmx(*units: str) -> str:
    head = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    return f'{head}<tmx version="1.4"><header/><body>{"".join(units)}</body></tmx>'


def unit(**segments: str) -> str:
    variants = (f'<tuv xml:lang="{k}"><seg>{v}</seg></tuv>' for k, v in segments.items())
    return f"<tu>{''.join(variants)}</tu>\n"


def test_line_breaks_become_single_spaces() -> None:
    assert one_line(" a \r\n\n   b\rc\n") == "a b c"
    assert one_line(" a  b\u2028c ") == "a  b\u2028c"


@pytest.mark.parametrize(
    ("tag", "language", "same"),
    [
        ("EN-GB", "en", True),
        ("en_us", "en", True),
        ("de", "en", False),
        ("pt-BR", "pt_BR", True),
        ("pt", "pt_BR", True),
        ("pt-PT", "pt_BR", False),
        ("zho-Hans", "zho_Hant", False),
        ("eng", "en", False),
    ],
)
def test_language_tags(tag: str, language: str, same: bool) -> None:
    assert same_language(tag, language) is same


# TMX


def test_tmx_units_with_both_languages(tmp_path: Path) -> None:
    text = tmx(
        unit(de="Hallo", en="Hello"),
        unit(de="nur deutsch", fr="x"),
        '<tu><tuv lang="EN-GB"><seg>A &amp; B</seg></tuv><tuv lang="DE"><seg>\n  A\n  u. B'
        "</seg></tuv></tu>",
        '<tu><tuv xml:lang="de"/><tuv xml:lang="en"><seg>no German segment</seg></tuv></tu>',
    )
    file = write(tmp_path / "a.tmx", text)
    assert list(read_tmx(file, ("en", "de"))) == [("Hello", "Hallo"), ("A & B", "A u. B")]


def test_tmx_inline_markup(tmp_path: Path) -> None:
    marked = (
        'a <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> <hi>high <ph>{1}<sub>no</sub>'
        "</ph>light</hi><!-- remark --> end<it>x</it>"
    )
    file = write(tmp_path / "a.tmx", tmx(unit(en=marked, de="b")))
    assert list(read_tmx(file, ("en", "de"))) == [("a bold high light end", "b")]


def test_tmx_regions_are_compared_in_full_first(tmp_path: Path) -> None:
    body = unit(**{"pt-PT": "europeu", "pt-BR": "brasileiro", "en": "x"}) + unit(pt="p", en="y")
    file = write(tmp_path / "a.tmx", tmx(body))
    assert list(read_tmx(file, ("pt_BR", "en"))) == [("brasileiro", "x"), ("p", "y")]
    assert list(read_tmx(file, ("pt", "pt_BR"))) == [("europeu", "brasileiro")]
    assert next(read_tmx(file, ("pt", "en"))) == ("europeu", "x")


def test_tmx_entities_are_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    doctype = (
        f'<!DOCTYPE tmx [<!ENTITY f SYSTEM "file://{tmp_path}/secret"><!ENTITY b "bomb">]>\n'
        f"<tmx><body>{unit(en='a &f;&b; c', de='x')}</body></tmx>"
    )
    ((text, _),) = read_tmx(write(tmp_path / "a.tmx", doctype), ("en", "de"))
    assert text == "a &f;&b; c"


def test_tmx_segments_above_the_limit_are_none(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tmx", tmx(unit(en="x" * 1_500_000, de="y"), unit(en="a", de="b")))
    assert list(read_tmx(file, ("en", "de"))) == [(None, "y"), ("a", "b")]


def test_tmx_without_the_languages_lists_those_it_has(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tmx", tmx(unit(en="a", fr="b")))
    with pytest.raises(AccordError, match="no translation unit has both en and de") as caught:
        list(read_tmx(file, ("en", "de")))
    assert str(caught.value.fix).endswith("en, fr")


def test_tmx_errors_name_the_cause_and_not_what_followed(tmp_path: Path) -> None:
    units = [unit(en=str(i), de="b") for i in range(300)]
    lines = "\n".join([*units[:150], unit(en="my&nbsp;own", de="x"), *units[150:]])
    text = f"<tmx><body>{lines}</body></tmx>"
    line = text[: text.index("&nbsp;")].count("\n") + 1
    with pytest.raises(AccordError, match="Entity 'nbsp' not defined") as caught:
        list(read_tmx(write(tmp_path / "a.tmx", text), ("en", "de")))
    assert str(caught.value.where).endswith(f", line {line}")


def test_tmx_that_is_cut_short_is_located(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tmx", tmx(unit(en="a", de="b"))[:-20])
    with pytest.raises(AccordError, match="not well-formed") as caught:
        list(read_tmx(file, ("en", "de")))
    assert str(caught.value.where).startswith(f"{file}, line ")
    packed = gzip.compress(tmx(*[unit(en=str(i), de="b") for i in range(5000)]).encode())
    (tmp_path / "b.tmx.gz").write_bytes(packed[:-100])
    with pytest.raises(AccordError, match="damaged"):
        list(read_tmx(f"{tmp_path}/b.tmx.gz", ("en", "de")))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_tmx_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    # The parser's memory is not Python's, so it is that of a process that is measured.
    with (tmp_path / "a.tmx").open("w") as file:
        file.write('<tmx version="1.4"><header/><body>\n')
        for index in range(30_000):
            file.write(unit(en=f"{index} " + "word " * 100, de=f"{index} " + "Wort " * 90))
        file.write("</body></tmx>")
    assert (tmp_path / "a.tmx").stat().st_size > 30_000_000
    script = """if True:
        import re, sys
        from pathlib import Path
        from accord.data.markup import read_tmx
        peaks = []
        for number, _ in enumerate(read_tmx(sys.argv[1], ("en", "de")), 1):
            if number in (1000, 30000):
                status = Path("/proc/self/status").read_text()
                peaks.append(int(re.search(r"VmHWM:\\s*(\\d+)", status)[1]))
        print(number, peaks[1] - peaks[0])
    """
    command = [sys.executable, "-c", script, str(tmp_path / "a.tmx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, kilobytes = map(int, done.stdout.split())
    assert count == 30_000
    assert kilobytes < 5_000


# IWSLT


def test_T19_iwslt_training_file(tmp_path: Path) -> None:
    text = """
<doc docid="535" genre="lectures">
<url>http://www.ted.com/talks/x.html</url>
<keywords>talks, <b>bold</b> design</keywords>
<speaker>A. Speaker</speaker>
<talkid>535</talkid>
<title>A talk: about things</title>
<description>TED Talk Subtitles &amp; Transcript</description>
<transcript>
 So this is the first line. 
<3 this
a <b> c
<i>Oh</i> and <i>ah</i>
R &amp; D
<seg id="1"> a <b> segment </seg>
<SEG>upper</SEG>
<title></title>
</transcript>
<reviewer href="http://x"></reviewer>
<translator href="http://www.ted.com/profiles/1">T. Ranslator</translator>
</doc>
"""  # noqa: W291
    kept = list(read_iwslt(write(tmp_path / "train.tags.de-en.en", text.lstrip("\n"))))
    assert kept == [
        "A talk: about things",
        "TED Talk Subtitles &amp; Transcript",
        "So this is the first line.",
        "<3 this",
        "a <b> c",
        "<i>Oh</i> and <i>ah</i>",
        "R &amp; D",
        "a <b> segment",
        "upper",
        "",
    ]


def test_iwslt_lines_above_the_limit_are_none(tmp_path: Path) -> None:
    file = write(tmp_path / "train.tags.de-en.en", "a\n" + "x" * 1_500_000 + "\n\nb\n")
    assert list(read_iwslt(file)) == ["a", None, "", "b"]


# Test sets


SGM = """<?xml version="1.0" encoding="UTF-8"?>
<mteval><refset setid="dev2010" srclang="english" trglang="german">
<doc docid="69" genre="lectures"><title>no</title>
<seg id="1"> Das ist &quot;gut&quot; &amp; richtig &lt;b&gt; it&apos;s </seg>
<SEG ID=2>zwei
   Zeilen</SEG><seg id="3">drei</seg> <seg id="4"></seg><seg id="5"/>
<p>text between</p><segment>no</segment>
<seg
  id="6">sechs < 7 > 5</seg>
</doc></refset></mteval>
"""
SGM_TEXTS = [
    'Das ist "gut" & richtig <b> it\'s',
    "zwei Zeilen",
    "drei",
    "",
    "",
    "sechs < 7 > 5",
]


def test_sgm_segments(tmp_path: Path) -> None:
    assert list(read_sgm(write(tmp_path / "a.sgm", SGM), "de", labelled=False)) == SGM_TEXTS


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_sgm_tags_may_be_spread_over_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    pieces = [SGM[i : i + size] for i in range(0, len(SGM), size)]
    monkeypatch.setattr(markup, "read_text", lambda path: iter(pieces))
    assert list(read_sgm("any", "de", labelled=False)) == SGM_TEXTS


def test_sgm_without_end_tags(tmp_path: Path) -> None:
    text = "<DOC docid=1>\n<seg id=1>one\n<seg id=2>two & more\n</DOC><seg>three"
    file = write(tmp_path / "a.sgm", text)
    assert list(read_sgm(file, "de", labelled=False)) == ["one", "two & more", "three"]


def test_sgm_segments_above_the_limit_are_none(tmp_path: Path) -> None:
    text = f"<seg>a</seg><seg>{'x y ' * 400_000}</seg><seg>{'x < y ' * 400_000}</seg><seg>b</seg>"
    file = write(tmp_path / "a.sgm", text)
    assert list(read_sgm(file, "de", labelled=False)) == ["a", None, None, "b"]


WMT = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="newstest2021"><doc id="a" origlang="en">
<src lang="en"><p><seg id="1">one</seg>
<seg id="2">two</seg></p></src>
<ref lang="de" translator="A"><p><seg id="1">eins</seg><seg id="2">zwei</seg></p></ref>
<ref lang="de" translator="B"><p><seg id="1">EINS</seg><seg id="2">ZWEI</seg></p></ref>
<hyp system="best" lang="de"><p><seg id="1">eine</seg><seg id="2">zweie</seg></p></hyp>
</doc><doc id="b"><hyp system="best" lang="de"><seg>dreie</seg></hyp>
<src lang="en"><seg id="1">three</seg></src><ref lang="de"><seg id="1">drei</seg></ref>
</doc></dataset>
"""


@pytest.mark.parametrize("labelled", [True, False])
def test_sgm_chooses_by_language(tmp_path: Path, labelled: bool) -> None:
    file = write(tmp_path / "a.xml", WMT)
    assert list(read_sgm(file, "en", labelled=labelled)) == ["one", "two", "three"]
    assert list(read_sgm(file, "de", labelled=labelled)) == ["eins", "zwei", "drei"]


def test_sgm_without_segments_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path / "a.xml", WMT)
    with pytest.raises(AccordError, match="no <seg> for fr") as caught:
        list(read_sgm(file, "fr", labelled=False))
    assert str(caught.value.fix).endswith("de, en")
    file = write(tmp_path / "b.sgm", SGM)
    with pytest.raises(AccordError, match="must have src and ref"):
        list(read_sgm(file, "de", labelled=True))
    file = write(tmp_path / "c.xml", "")
    with pytest.raises(AccordError, match="set its format"):
        list(read_sgm(file, "de", labelled=False))


def test_elements_outside_units_do_not_pile_up(tmp_path):
    """Six million empty ones in 61 KB of gzip took 769 MB."""
    path = tmp_path / "many.tmx"
    unit = '<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    path.write_text(
        f"<tmx><header>{'<x/>' * 3000}</header><body>{'<x><y/></x>' * 3000}{unit}</body></tmx>"
    )
    [found] = [
        (len(unit.getparent()), len(unit.getroottree().getroot()))
        for unit in markup._units(str(path))
    ]
    assert max(found) <= 2
    assert list(read_tmx(str(path), ("en", "de"))) == [("a", "b")]


def test_a_unit_of_endlessly_many_elements_is_refused(tmp_path):
    path = tmp_path / "one.tmx"
    path.write_text(f"<tmx><body><tu>{'<x/>' * 100_001}</tu></body></tmx>")
    with pytest.raises(AccordError, match="more than 100,000 elements"):
        list(read_tmx(str(path), ("en", "de")))
