"""From a trained run to its evaluation: the model is real, tiny and bad."""

import json
import shutil
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import load
from accord.data.prepare import prepare
from accord.errors import AccordError
from accord.evaluation.evaluate import evaluate_run
from accord.evaluation.folder import read
from accord.evaluation.uses import read_uses
from accord.inference.results import SearchSettings
from accord.inference.translator import Translator
from accord.training.trainer import train

WORDS = {
    "en": "zero one two three four five six seven eight nine".split(),
    "de": "null eins zwei drei vier fünf sechs sieben acht neun".split(),
    "fr": "zéro un deux trois quatre cinq six sept huit neuf".split(),
}
GREEDY = SearchSettings(beam=1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of the same data that differ in the number of steps."""
    base = tmp_path_factory.mktemp("evaluated")
    for language, words in WORDS.items():
        for split, numbers in (("train", range(100, 300)), ("test", range(3000, 3012))):
            text = "".join(" ".join(words[int(d)] for d in str(n)) + "\n" for n in numbers)
            (base / f"{split}.{language}").write_text(text, "utf-8")
    settings = {
        "languages": list(WORDS),
        "corpora": [{"pair": f"en-{x}", "train": str(base / "train.{lang}")} for x in ("de", "fr")],
        "test": str(base / "test.{lang}"),
        "overlap": "keep",
        "vocabulary": {"size": 320},
        "store": str(base / "store"),
        "model": {"units": 16, "encoder_layers": 1, "decoder_layers": 2},
        "training": {"batch_tokens": 512, "threads": 1, "validation": {"every": 1000}},
    }
    path = base / "toy.yaml"
    path.write_text(yaml.safe_dump(settings), "utf-8")
    prepare(load(path), workers=1)
    for name, steps in (("long", 40), ("short", 2)):
        train(load(path, [f"run={base / name}", f"training.steps={steps}"]))
    return base


def test_a_run_is_evaluated_and_compared(runs):
    short = evaluate_run(runs / "short", settings=GREEDY)
    assert short.comparison is None
    long = evaluate_run(runs / "long", settings=GREEDY, against=runs / "short")
    assert long.directory == runs / "long" / "evaluation" / "test-beam1"
    origin = long.evaluation.origin
    manifest = json.loads((runs / "long" / "manifest.json").read_text("utf-8"))
    assert (origin.run, origin.checkpoint, origin.step) == ("long", "best", 40)
    assert origin.fingerprint == manifest["fingerprint"]
    assert (origin.device, origin.precision) == ("cpu", "fp32")
    better, worse = (item.evaluation.consistency.per_token.epsilon for item in (long, short))
    assert better < worse
    written = json.loads((long.directory / "against-short.json").read_text("utf-8"))
    assert written["averages"]["supervised"]["bleu"] == pytest.approx(
        vars(long.comparison.averages["supervised"].bleu)
    )


def test_files_hold_what_the_translator_says(runs):
    found = evaluate_run(runs / "long", settings=GREEDY)
    translator = Translator(runs / "long", device="cpu")
    rows = {row.name: row for row in (*found.evaluation.directions, *found.evaluation.via_pivot)}
    for item in read(found.directory).lines:
        said = translator.translate(
            item.sources,
            item.direction.target,
            source=item.direction.source,
            via="auto" if item.via else None,
            settings=GREEDY,
        )
        assert [translation.text for translation in said] == list(item.hypotheses)
        if not item.via:
            losses = translator.cross_entropy(item.sources, item.references, item.direction.target)
            expected = sum(nats for nats, _ in losses) / sum(tokens for _, tokens in losses)
            assert rows[item.name].cross_entropy == pytest.approx(expected, rel=1e-5)
    command = "-m sacrebleu ref.en-de.txt -i hyp.en-de.txt -m bleu chrf -b -w 4".split()
    scores = json.loads(
        subprocess.check_output(
            [sys.executable, *command], cwd=found.directory, stderr=subprocess.DEVNULL
        )
    )
    row = rows["en-de"]
    assert scores == [round(row.bleu.score, 4), round(row.chrf.score, 4)]


def test_checkpoints_are_evaluated_side_by_side(runs):
    found = evaluate_run(
        runs / "long", settings=GREEDY, checkpoint="last", limit=2, pivot=False, agreement=False
    )
    assert found.directory.name == "test-beam1-last-first2"
    assert found.evaluation.origin.checkpoint == "last"


def test_another_run_must_have_been_evaluated_in_the_same_way(runs, tmp_path):
    shutil.copytree(runs / "short", tmp_path / "fresh", ignore=lambda *_: ["evaluation"])
    with pytest.raises(AccordError, match=r"no evaluation 'test-beam1'.*\n.*accord evaluate"):
        evaluate_run(runs / "long", settings=GREEDY, against=tmp_path / "fresh")
    with pytest.raises(AccordError, match="no evaluation") as error:
        evaluate_run(
            runs / "long",
            split="dev",
            settings=SearchSettings(beam=2, length_penalty=0.5, no_repeat_ngram=3),
            checkpoint="last",
            limit=2,
            against=tmp_path / "fresh",
        )
    assert error.value.fix.endswith(
        "fresh --split dev --beam 2 --length-penalty 0.5 --no-repeat-ngram 3 --checkpoint last "
        "--limit 2"
    )
    with pytest.raises(AccordError, match="with itself") as error:
        evaluate_run(runs / "long", settings=GREEDY, against=runs / "long")
    assert "name another run" in error.value.fix
    with pytest.raises(AccordError, match="no run directory"):
        evaluate_run(runs / "long", settings=GREEDY, against=tmp_path / "nowhere")
    with pytest.raises(AccordError, match="no run directory"):
        evaluate_run(tmp_path)


def test_an_ensemble_from_the_command_line(runs):
    command = ["evaluate", str(runs / "long"), "--beam", "1", "--device", "cpu", "-q"]
    found = CliRunner().invoke(app, [*command, "--ensemble", "direct:1,via:en:3"])
    assert found.exit_code == 0, found.output
    assert "BLEU of the ensemble direct:0.25,via:en:0.75" in " ".join(found.output.split())
    said = read(runs / "long" / "evaluation" / "test-beam1")
    translator = Translator(runs / "long", device="cpu")
    mixed = [item for item in said.lines if item.ensemble]
    assert {str(item.direction) for item in mixed} == {"de-fr", "fr-de"}
    for item in mixed:
        expected = translator.translate(
            item.sources, item.direction.target, ensemble="direct:1,via:en:3", settings=GREEDY
        )
        assert [translation.text for translation in expected] == list(item.hypotheses)


def test_lines_are_scored_by_themselves_and_each_look_is_noted(runs):
    def call(*options):
        line = ["evaluate", str(runs / "short"), "--beam", "1", "--no-agreement", "-q", *options]
        return CliRunner().invoke(app, line)

    before = len(read_uses(runs / "short"))
    result = call("--lines", "3-6", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["name"], found["lines"]) == ("test-beam1-lines3-6", [3, 6])
    assert {row["sentences"] for row in found["directions"]} == {4}
    assert "lines 3 to 6: scored once by this run" in result.stderr
    assert "lines 3 to 6: scored 2 times by this run" in call("--lines", "3-6").stderr
    noted = read_uses(runs / "short")[before:]
    assert [(use.split, use.first, use.last) for use in noted] == [("test", 3, 6)] * 2
    for wrong, told in (("10-13", "has 12 lines of"), ("6-3", "'6-3' are no lines")):
        assert told in str(call("--lines", wrong).exception)
    assert "both a limit (4) and lines (1-4)" in str(
        call("--lines", "1-4", "--limit", "4").exception
    )
    assert len(read_uses(runs / "short")) == before + 2


def test_a_set_that_the_run_does_not_have_is_read_from_text(runs, tmp_path):
    def call(split, *options):
        line = ["evaluate", str(runs / "short"), "--beam", "1", "--split", split, "-q", *options]
        return CliRunner().invoke(app, line)

    for language in ("de", "fr"):  # no English: two directions are left
        (tmp_path / f"t.{language}").write_text("\n".join(WORDS[language]) + "\n", "utf-8")
    result = call(f"ten={tmp_path}/t.{{lang}}", "--lines", "2-9", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["name"], found["split"]) == ("ten-beam1-lines2-9", "ten")
    assert [f"{row['source']}-{row['target']}" for row in found["directions"]] == ["de-fr", "fr-de"]
    assert any("nothing took its lines out" in note for note in found["notes"])
    assert "ten set all, lines 2 to 9: scored once" in result.stderr
    kept = read(runs / "short/evaluation/ten-beam1-lines2-9")
    assert kept.lines[0].references == tuple(WORDS["fr"][1:9])
    assert read_uses(runs / "short")[-1].split == "ten"
    for wrong, told in (
        (f"x={tmp_path}/no.{{lang}}", "needs a file in two of the languages en, de, fr"),
        (f"x={tmp_path}/t.de", "{lang} in the place of the language"),
        (f"test={tmp_path}/t.{{lang}}", "other than dev and test"),
        ("news=", "names no set"),
        ("news", "the run has no 'news' set"),
    ):
        assert told in str(call(wrong).exception)


def test_comet_is_measured_by_a_model_on_the_disk(runs, tmp_path, monkeypatch):
    """A stand-in for the package scores a translation by its share of the reference's words."""

    def predict(rows, **keys):
        assert {key for row in rows for key in row} == {"src", "mt", "ref"}
        shares = [
            len({*row["mt"].split()} & {*row["ref"].split()}) / len({*row["ref"].split()})
            for row in rows
        ]
        return SimpleNamespace(scores=shares)

    module = ModuleType("comet")
    module.load_from_checkpoint = lambda path, **keys: SimpleNamespace(predict=predict)
    monkeypatch.setitem(sys.modules, "comet", module)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "1")
    (tmp_path / "judge.ckpt").write_text("weights")
    options = ["--beam", "1", "--limit", "4", "-q", "--comet", str(tmp_path / "judge.ckpt")]
    done = CliRunner().invoke(app, ["evaluate", str(runs / "long"), *options])
    assert done.exit_code == 0, done.output
    assert "COMET (judge.ckpt|sha256:" in done.stdout
    (evaluation,) = [read(p.parent).evaluation for p in runs.glob("long/evaluation/*first4/*.json")]
    assert evaluation.comet_signature.startswith("judge.ckpt|sha256:")
    assert all(row.comet is not None for row in evaluation.rows)
    assert evaluation.averages["supervised"].comet == pytest.approx(
        sum(row.comet for row in evaluation.directions if row.kind == "supervised") / 4
    )
    missing = CliRunner().invoke(app, ["evaluate", str(runs / "long"), "--comet", "none.ckpt"])
    assert "no COMET checkpoint here" in str(missing.exception)
