"""The prompt of `accord translate` at a terminal, and the progress of translating files."""

import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import pytest

from accord.cli.prompt import Direction, converse
from accord.cli.translate import _count, _speed
from accord.errors import AccordError


class Upper:
    """Says where a line went instead of translating it."""

    languages = ("en", "de", "fr")

    def translate(self, lines, to, *, source):
        if source == to:
            raise AccordError(f"from {to} into {to}", fix="another")
        warnings = ("cut",) if lines == ["long"] else ()
        return [SimpleNamespace(text=f"{to}:{line}", warnings=warnings) for line in lines]


@pytest.fixture
def talk(monkeypatch, capsys):
    def run(*lines, to=None, source=None):
        left, prompts = list(lines), []

        def typed(prompt):
            prompts.append(prompt)
            if not left:
                raise EOFError
            return left.pop(0)

        monkeypatch.setattr("builtins.input", typed)
        converse(Upper(), Direction(to, source), lambda item: item.text, {})
        said = capsys.readouterr()
        return SimpleNamespace(out=said.out.splitlines(), err=said.err, prompts=prompts, left=left)

    return run


def test_it_says_the_languages_and_answers_line_by_line(talk):
    found = talk("eins", "", "zwei", to="fr", source="de")
    assert "languages: en, de, fr" in found.err
    assert ":quit or Ctrl-D" in found.err
    assert found.out == ["fr:eins", "fr:zwei", ""]  # a line break after Ctrl-D
    assert set(found.prompts) == {"de → fr> "}


def test_languages_can_be_changed(talk):
    found = talk("eins", ":to fr", "eins", ":from de", ":to en", "eins", ":help")
    assert found.out == ["fr:eins", "en:eins", ""]
    assert "type :to" in found.err
    assert found.prompts == ["→ ?> ", "→ ?> ", "→ fr> ", "→ fr> ", "de → fr> ", *["de → en> "] * 3]
    assert found.err.count("languages:") == 2


def test_slips_are_said_and_no_end(talk):
    found = talk(":to xx", ":to", ":nothing", ":from fr", "un", ":from de", "eins", to="fr")
    for part in ("'xx'", "use one of en, de, fr", "which language?", "no command :nothing"):
        assert part in found.err
    assert "from fr into fr" in found.err
    assert found.out == ["fr:eins", ""]


def test_quit_ends_it_and_a_smile_is_text(talk):
    found = talk(":-)", "long", ":quit", "never", to="fr")
    assert found.out == ["fr::-)", "fr:long"]
    assert "accord: cut" in found.err
    assert found.left == ["never"]


@pytest.mark.parametrize(
    ("text", "count"), [(b"", 0), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2), (b"a\rb\n", 1)]
)
def test_lines_are_counted_as_they_are_read(tmp_path, text, count):
    path = tmp_path / "text"
    path.write_bytes(text)
    assert _count(path) == count
    assert _count(tmp_path) is None
    assert _count(None) is None


def test_speed_and_time_left():
    assert _speed(300, 10.0, 900) == "30 lines/s left 0:20"
    assert _speed(300, 10.0, None) == "30 lines/s"
    assert _speed(1, 0.0, None) == ""


_PROGRAM = """
import sys
from types import SimpleNamespace
from accord import cli
from accord.inference import translator
class Upper:
    languages = ("en", "de")
    def __init__(self, run, **options): pass
    def close(self): pass
    def stream(self, lines, to, *, source, at_once, **options):
        return (SimpleNamespace(text=line.upper(), warnings=()) for line in lines)
    def translate(self, texts, to, **options):
        return [SimpleNamespace(text=text.upper(), warnings=()) for text in texts]
translator.Translator = Upper
sys.argv = ["accord", *sys.argv[1:]]
cli.main()
"""


def translated(*arguments, **streams):
    command = [sys.executable, "-c", _PROGRAM, "translate", "run", *map(str, arguments)]
    return subprocess.run(command, text=True, check=False, **streams)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text("".join(f"line {i}\n" for i in range(200)))
    return path


def test_progress_goes_to_stderr_and_never_into_the_output(text, tmp_path):
    """A terminal takes stderr, a pipe stdout: every line arrives there, and nothing else."""
    ours, theirs = pty.openpty()
    run = translated("--to", "de", "--input", text, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    drawn = os.read(ours, 1 << 16).decode()
    assert run.stdout == text.read_text().upper()
    assert "translating" in drawn
    assert "lines/s" in drawn
    assert "LINE" not in drawn


def test_plain_lines_and_quiet(text, tmp_path):
    out = tmp_path / "out"
    files = ("--to", "de", "--input", text, "--output", out)
    shown = translated(*files, capture_output=True)
    assert (shown.stdout, shown.stderr) == ("", "translating (200)\n")
    assert out.read_text() == text.read_text().upper()
    assert translated(*files, "-q", capture_output=True).stderr == ""
    piped = translated("--to", "de", input="a\n", capture_output=True)
    assert (piped.stdout, piped.stderr) == ("A\n", "")


def test_without_a_terminal_the_language_must_be_given(text):
    run = translated("--input", text, capture_output=True)
    assert run.returncode == 2
    assert "--to" in run.stderr
    several = translated("--to", "de", "--nbest", "3", input="a\n", capture_output=True)
    assert several.returncode == 2
    assert "add --json to see 3" in several.stderr


def test_at_a_terminal_there_is_a_prompt(text):
    ours, theirs = pty.openpty()
    os.write(ours, b"eins\n:quit\n")
    run = translated("--to", "de", stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    seen = os.read(ours, 1 << 16).decode()
    assert run.returncode == 0, run.stderr
    assert "languages: en, de" in run.stderr
    assert "→ de> " in seen
    assert "EINS" in seen
