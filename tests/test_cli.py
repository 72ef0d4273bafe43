"""The command line as a user meets it: help, speed, errors, exit codes, the README's commands."""

import functools
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

from accord.cli import app
from accord.cli.command import OLD_NAMES
from toy_training import run_command

ROOT = Path(__file__).parents[1]
COMMANDS = (
    *("init", "recipes", "config", "graph", "prepare", "builtin", "demo"),
    *("train", "average", "translate", "distil-data", "evaluate", "report"),
    *("export", "serve", "fetch", "reproduce"),
)


def accord(*arguments, cwd=None, code=0, said=None, **variables):
    line = [str(each) for each in arguments]
    if variables:  # only a new interpreter reads them all
        fresh, env = [sys.executable, "-m", "accord", *line], {**os.environ, **variables}
        run = subprocess.run(
            fresh, capture_output=True, input=said, text=True, cwd=cwd, check=False, env=env
        )
    else:
        run = run_command(line, cwd=cwd, said=said)
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr
    return run


def test_help_lists_every_command_and_each_has_its_own():
    text = accord("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"^\s+{command}\s+\S", text, re.MULTILINE)
        own = accord(command, "--help").stdout
        assert "--help" in own
        assert len(own.splitlines()) > 5


@functools.cache
def helps():
    """The help of every command, as a terminal of 80 columns shows it; found in the app itself."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        run = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"})
        found[name] = (command, run.output)
    return found


def test_no_summary_is_cut_in_80_columns():
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    listed = text.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == list(helps())  # one line each
    for line in listed:
        assert len(line) <= 80
        assert line.endswith(".")
        assert not line.endswith("...")


def test_every_help_has_an_example_that_the_command_understands():
    for name, (command, text) in helps().items():
        paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
        examples = [part[16:] for part in paragraphs if part.startswith("Example: accord ")]
        assert examples, name
        for example in examples:
            first, *arguments = shlex.split(example)
            assert first == name
            command.make_context(name, arguments)  # parses them, runs nothing


def test_usage_lines_name_arguments_without_braces():
    for name, (_, text) in helps().items():
        usage = text.partition("\n\n")[0]
        assert usage.startswith(f"Usage: accord {name} ") or f" {name} " in usage
        assert "{" not in usage
        assert "[[" not in usage
    assert helps()["train"][1].splitlines()[0].endswith("train [OPTIONS] EXPERIMENT")
    assert helps()["config"][1].splitlines()[0].endswith("config [OPTIONS] [EXPERIMENT]")
    assert helps()["compare"][1].splitlines()[0].endswith("compare [OPTIONS] RUN...")


def test_from_and_to_mean_languages_only():
    found = {
        (name, parameter.opts[0]): parameter.help
        for name, (command, _) in helps().items()
        for parameter in command.params
        if {"--from", "--to"} & set(parameter.opts)
    }
    assert {("translate", "--from"), ("translate", "--to")} <= set(found)
    for said in found.values():
        assert said.startswith("Language ")


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [(name, old, new) for name, names in OLD_NAMES.items() for old, new in names.items()],
)
def test_old_names_of_options_go_on_working_and_say_the_new_one(command, old, new, capsys):
    made = typer.main.get_command(app).commands[command]
    values = [
        made.make_context(command, ["x", *arguments]).params
        for arguments in ([new, "y"], [old, "y"], [f"{old}=y"])
    ]
    assert values[0] == values[1] == values[2]
    assert any(str(value) == "y" for value in values[0].values())
    assert capsys.readouterr().err == f"accord: note: {old} is now called {new}\n" * 2


def test_completion_can_be_installed(tmp_path):
    """As typer has it for bash, zsh, fish and PowerShell."""
    program = str(Path(sys.executable).with_name("accord"))
    home = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    asked = {"_ACCORD_COMPLETE": "complete_bash", "COMP_WORDS": "accord tra", "COMP_CWORD": "1"}

    def call(*arguments, **variables):
        env = {**os.environ, **variables}
        return subprocess.check_output([program, *arguments], env=env, text=True)

    call("--install-completion", "bash", **home)
    assert "accord.sh" in (tmp_path / ".bashrc").read_text()
    script = (tmp_path / ".bash_completions" / "accord.sh").read_text()
    assert "_ACCORD_COMPLETE=complete_bash" in script
    assert call(**asked).split() == ["train", "translate"]


def test_help_answers_at_once():
    """Under 0.4 seconds; processor time, since the machine may be busy with other things."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    accord("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.4


@pytest.mark.parametrize("command", [["--help"], ["graph"], ["prepare", "-q"]])
def test_torch_is_not_imported_where_it_is_not_needed(toy, command):
    arguments = command if command == ["--help"] else [*command, str(toy)]
    code = (
        "import sys\nfrom accord.cli import main\n"
        f"sys.argv = ['accord', *{arguments!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_wrong_usage_exits_2():
    assert "No such command" in accord("translat", code=2).stderr
    assert "EXPERIMENT" in accord("prepare", code=2).stderr
    assert "No such option" in accord("prepare", "x.yaml", "--wrokers", "2", code=2).stderr
    assert "--schema" in accord("config", code=2).stderr


@pytest.mark.parametrize("command", ["config", "graph", "prepare"])
def test_a_user_error_exits_1_with_a_remedy(tmp_path, command):
    message = accord(command, tmp_path / "none.yaml", code=1).stderr
    assert message.startswith(f"accord: {tmp_path}/none.yaml: there is no such experiment file")
    assert "fix:" in message


def test_config_prints_what_is_in_force(toy):
    text = accord("config", toy, "--set", "seed=7").stdout
    assert "seed: 7" in text
    assert "max_ratio: 9.0" in text


def test_schema_is_json():
    assert json.loads(accord("config", "--schema").stdout)["properties"]["languages"]


def test_graph_as_text_json_and_svg(toy, tmp_path):
    run = accord("graph", toy, "--svg", tmp_path / "g.svg")
    assert "de → en → fr, es" in run.stdout
    ElementTree.parse(tmp_path / "g.svg")
    facts = json.loads(accord("graph", toy, "--json").stdout)
    assert facts["zero_shot"]["de-fr"] == ["de", "en", "fr"]
    assert facts["spans"] is True


def test_prepare_prints_tables_and_writes_json(toy, tmp_path):
    run = accord("prepare", toy, "--json", tmp_path / "s.json", NO_COLOR="1")
    for part in ("lines read", "− overlap", "= training lines", "zero-shot", "Languages"):
        assert part in run.stdout
    assert "cleaning (1,800)" in run.stderr
    facts = json.loads((tmp_path / "s.json").read_text())
    rows = {row["direction"]: row for row in facts["directions"]}
    assert rows["de-fr"] == {
        "direction": "de-fr",
        "kind": "zero-shot",
        "train": 0,
        "dev": 20,
        "test": 20,
    }
    assert rows["de-en"]["train"] == rows["en-de"]["train"] > 100
    assert sum(facts["languages"]["en"]["histogram"]) == 600
    again = accord("prepare", toy, "--json", "-", "-q")
    assert json.loads(again.stdout) == facts
    assert again.stderr == f"{toy.parent}/store: up to date, nothing to do\n"


def test_builtin_writes_aligned_files(tmp_path):
    accord("builtin", tmp_path, "--pairs", "en-de,en-cs", "--lines", "50", "--held-out", "10")
    counts = {p.name: len(p.read_text("utf-8").splitlines()) for p in tmp_path.iterdir()}
    assert counts == {
        **{f"train.en-{x}.{side}": 50 for x in ("de", "cs") for side in ("en", x)},
        **{f"{split}.{x}": 10 for split in ("dev", "test") for x in ("en", "de", "cs")},
    }


def test_a_closed_pipe_is_no_accident(toy):
    command = f"{sys.executable} -m accord config --schema | head -1"
    run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert run.stdout == "{\n"
    assert run.stderr == ""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_of_the_readme_works(tmp_path):
    """R10: what the README shows is executed as it stands there, or nearly."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r'^(?:echo "(.+)" \| )?accord (.+?)(?:\s+#.*)?$', text, re.MULTILINE)
    assert len(shown) >= 12
    own = after_the_tour(tmp_path)
    for said, command in shown:
        name, *rest = shlex.split(command)
        if name == "serve":
            serve_a_moment(rest, tmp_path)
        elif name == "fetch":  # has a network in its way
            accord(name, *rest, "--help")
        else:
            cwd = own if name == "init" or "experiment" in command else tmp_path
            accord(name, *rest, *less(command), cwd=cwd, said=said or None)
    (code,) = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, text=True)
    assert run.returncode == 0


def after_the_tour(directory):
    """What `make demo` leaves behind, in short; returns a directory with text of one's own."""
    (directory / "recipes").symlink_to(ROOT / "recipes")
    for command in (
        "builtin demo/text",
        "prepare recipes/demo.yaml",
        "train recipes/demo.yaml",
        "train recipes/demo-agree.yaml",
    ):
        accord(*command.split(), *less(command), cwd=directory)
    own = directory / "own"
    own.mkdir()
    for language in ("en", "de"):
        text = directory / f"demo/text/train.en-de.{language}"
        (own / f"talks.{language}").write_bytes(text.read_bytes())
    return own


def less(command):
    """What is shown in full is tried with a few steps or sentences, or as a plan."""
    if command.startswith("train"):
        return ["--set", f"training.steps={6 if 'agree' in command else 3}"]
    few = {"evaluate": ["--limit", "5"], "export": ["--check", "24"], "reproduce": ["--dry-run"]}
    return few.get(command.split()[0], [])


def serve_a_moment(arguments, directory):
    command = [sys.executable, "-m", "accord", "serve", *arguments, "--port", "0"]
    server = subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert "listening on http://127.0.0.1:" in server.stdout.readline()
    finally:
        server.terminate()
    assert server.wait(60) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tour(tmp_path):
    """`make demo`, with little training; and again, which finds everything done."""
    run = accord("demo", "--quick", cwd=tmp_path)
    for part in ("Every line accounted for", "de → en → es, fr", "6 steps done", "Against more"):
        assert part in run.stdout + run.stderr
    assert (tmp_path / "demo/agree/report.html").stat().st_size > 10_000
    again = accord("demo", "--quick", cwd=tmp_path)
    assert "resuming from step 6" in again.stderr
    check_translation(tmp_path)


def check_translation(directory):
    """translate: one line in, one line out, and one wrong input for each option."""
    (directory / "in.txt").write_text("3 Wochen\n\n5 Tage\n", encoding="utf-8")
    run = ("translate", "demo/agree", "--to", "fr")
    text = accord(*run, "--input", "in.txt", cwd=directory).stdout
    assert [bool(line) for line in text.split("\n")] == [True, False, True, False]
    accord(*run, "--input", "in.txt", "--output", "out.txt", "--json", cwd=directory)
    lines = [json.loads(line) for line in (directory / "out.txt").read_text("utf-8").splitlines()]
    assert [line["source"] for line in lines] == ["3 Wochen", "", "5 Tage"]
    assert {"hypotheses", "text", "language", "via"} <= set(lines[0])
    mixed = ("--from", "de", "--ensemble", "direct:0.4,via:en:0.6", "--json", "--beam", "1")
    found = accord(*run, *mixed, "--input", "in.txt", cwd=directory).stdout.splitlines()
    read = [json.loads(line)["ensemble"] for line in found]
    assert [(member["weight"], member["via"]) for member in read[0]] == [(0.4, []), (0.6, ["en"])]
    assert (read[0][0]["text"], read[1]) == ("3 Wochen", [])
    for options, part in (
        (("--input", "none.txt"), "none.txt: cannot be read"),
        (("--input", "in.txt", "--via", "auto"), "--from"),
        (("--input", "in.txt", "--via", "xx"), "xx"),
        (("--input", "in.txt", "--ensemble", "direct"), "direct,via:en"),
        (("--input", "in.txt", "--precision", "fp16"), "fp16"),
        (("--input", "in.txt", "--vocabulary", "some"), "some"),
        (("--input", "in.txt", "--checkpoint", "step-1"), "step-1"),
        (("--input", "in.txt", "--device", "tpu"), "tpu"),
    ):
        assert part in accord(*run, *options, cwd=directory, code=1).stderr
    assert "it" in accord("translate", "demo/agree", "--to", "it", cwd=directory, code=1).stderr
    assert "no run directory" in accord("evaluate", "demo/text", cwd=directory, code=1).stderr
    assert "accord evaluate" in accord("report", "demo/run", cwd=directory, code=1).stderr
    assert "--to" in accord("translate", "demo/agree", cwd=directory, code=2).stderr
    several = accord(*run, "--input", "in.txt", "--nbest", "3", cwd=directory, code=2).stderr
    assert "add --json" in several


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_recipe_is_valid(path):
    accord("config", path)


def test_places_for_output_are_checked_before_the_work(toy, tmp_path):
    assert "this is a directory" in accord("prepare", toy, "--json", tmp_path, code=1).stderr
    assert not (toy.parent / "store").exists()
    assert "end in .svg" in accord("graph", toy, "--svg", toy, code=2).stderr
    assert toy.read_text().startswith("languages")


def test_workers_have_a_limit(toy):
    assert "256" in accord("prepare", toy, "--workers", "257", code=2).stderr


def test_builtin_overwrites_only_if_told_to(tmp_path):
    (tmp_path / "dev.en").write_text("mine\n")
    options = ("builtin", tmp_path, "--pairs", "en-de", "--lines", "20", "--held-out", "5")
    assert "--force" in accord(*options, code=1).stderr
    assert (tmp_path / "dev.en").read_text() == "mine\n"
    accord(*options, "--force")
    assert (tmp_path / "dev.en").read_text() != "mine\n"


@pytest.mark.parametrize("command", ["config", "graph"])
def test_output_that_cannot_be_written_is_an_error(toy, command):
    run = subprocess.run(
        f"{sys.executable} -m accord {command} {toy} > /dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr == "accord: the output cannot be written: No space left on device\n"


def test_a_terminal_that_lacks_characters_is_no_accident(toy):
    assert "? overlap" in accord("prepare", toy, PYTHONIOENCODING="ascii").stdout


def test_an_interrupt_does_not_hide_what_went_wrong_before_it():
    """So it is where one process of several dies: torchrun tells the others to stop."""
    code = (
        "import os, signal\n"
        "from accord import cli\n"
        "from accord.errors import AccordError\n"
        "def app():\n"
        "    try: raise AccordError('lost touch', fix='look there')\n"
        "    finally: os.kill(os.getpid(), signal.SIGTERM)\n"
        "cli.app = app\n"
        "cli.main()\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "accord: lost touch\n  fix: look there\n")


def test_a_second_interrupt_does_not_break_into_the_clearing_up():
    code = (
        "import os, signal\nfrom accord import cli\n"
        "try: cli._interrupt(signal.SIGINT, None)\n"
        "except cli._InterruptedError: pass\n"
        "for number in (signal.SIGINT, signal.SIGTERM): os.kill(os.getpid(), number)\n"
        "print('cleared up')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout == "cleared up\n"


def test_a_closed_standard_input_is_an_error_and_not_a_crash(monkeypatch):
    from accord.cli.data import _at_a_terminal
    from accord.cli.translate import _lines
    from accord.errors import AccordError

    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(AccordError, match="no standard input"):
        _lines(None)
    assert not _at_a_terminal()


def test_bytes_that_are_not_utf8_are_told_and_a_mark_of_the_text_is_not(tmp_path):
    from accord.cli.translate import _decoded, _lines
    from accord.errors import AccordWarning

    file = tmp_path / "latin1.fr"
    file.write_bytes("été\n".encode() + "mètre\n� vu\nété\n".encode("latin-1", "replace"))
    with _lines(file) as lines, pytest.warns(AccordWarning) as told:
        assert list(_decoded(lines)) == ["été", "m�tre", "? vu", "�t�"]
    first, last = (str(each.message) for each in told)
    assert "line 2 has bytes that are not UTF-8" in first
    assert "iconv" in first
    assert "2 lines" in last
    file.write_text("� stood here before\n", encoding="utf-8")
    with _lines(file) as lines, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(_decoded(lines)) == ["� stood here before"]


def test_a_closed_standard_output_is_no_crash():
    command = f"exec {sys.executable} -m accord --version >&-"
    found = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize("quick", [True, False])
def test_a_tour_of_another_length_is_refused_with_options_that_it_has(tmp_path, monkeypatch, quick):
    from accord.cli.tour import demo
    from accord.config.load import dump, load
    from accord.config.shipped import recipe
    from accord.errors import AccordError

    monkeypatch.chdir(tmp_path)
    Path("demo/run").mkdir(parents=True)
    steps = 500 if quick else 4
    settings = load(recipe("demo"), [f"training.steps={steps}"])
    Path("demo/run/experiment.yaml").write_text(dump(settings), encoding="utf-8")
    with pytest.raises(AccordError, match="holds a tour with") as error:
        demo(quick=quick)
    assert ("--quick" in error.value.fix) != quick
