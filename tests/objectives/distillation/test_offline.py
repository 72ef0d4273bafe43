"""A corpus translated in shards: the same pairs whoever makes them, and whatever happens."""

import json
import signal

import pytest
import yaml
from typer.testing import CliRunner

from accord.cli import app as accord
from accord.config.load import load, store_directory
from accord.data.formats import read_pair
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.errors import AccordError
from accord.inference.results import SearchSettings
from accord.inference.translator import Translator
from accord.objectives.distillation import offline, offline_job
from accord.objectives.distillation.offline import distil
from accord.objectives.distillation.offline_job import Job
from accord.training.trainer import train
from toy_training import Fault, experiment, prepared, run_fork

LINES = 60
GREEDY = SearchSettings(beam=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model of a few steps and the store that it was trained on."""
    toy = prepared(tmp_path_factory.getbasetemp())
    settings = experiment(toy, tmp_path_factory.mktemp("teacher"), training__steps=9)
    return train(settings).run, store_directory(settings), toy.parent


def job_of(run, out, **changes):
    """English of the corpus en-de into French, beside German; seven shards of nine lines."""
    model, store, _ = run
    usual = {
        "source": "en",
        "to": "fr",
        "beside": "de",
        "store": store,
        "corpus": "en-de",
        "search": GREEDY,
        "shard_lines": 9,
        "least_bigrams": 0.0,
    }
    return Job(model, out, **usual | changes)


def texts(job):
    return [path.read_bytes() for path in job.results()]


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """What one process made without a disturbance."""
    job = job_of(run, tmp_path_factory.mktemp("whole"))
    return distil(job), texts(job), job.out


def arguments(job):
    """The command line of the same."""
    named = {
        "from": job.source,
        "to": job.to,
        "pair-with": job.beside,
        "out": job.out,
        "store": job.store,
        "corpus": job.corpus,
        "beam": 1,
        "shard-lines": 9,
        "distinct-bigrams": 0,
    }
    return ["distil-data", str(job.model), *(f"--{name}={value}" for name, value in named.items())]


def test_pairs_are_the_other_side_and_the_teachers_translation(run, whole, tmp_path):
    account, (german, french), _ = whole
    store = Store(run[1])
    corpus = store.corpora[0]
    assert account["lines"] == len(corpus) == LINES
    assert account["shards"] == 7
    decode = store.vocabulary.decode
    english, gold = ([decode([row.tolist()])[0] for row in side] for side in corpus.sides)
    found = Translator(run[0]).translate(english, "fr", settings=GREEDY)
    kept = [(g, t.text) for g, t in zip(gold, found, strict=True) if t.text]
    assert account["kept"] == len(kept) > 0
    assert german.decode() == "".join(f"{g}\n" for g, _ in kept)
    assert french.decode() == "".join(f"{t}\n" for _, t in kept)


def test_an_experiment_can_name_the_result(run, whole, tmp_path):
    made = yaml.safe_load((run[2] / "toy.yaml").read_text("utf-8"))
    made["corpora"].append({"pair": "de-fr", "train": str(whole[2] / "de-fr.{lang}")})
    file = tmp_path / "more.yaml"
    file.write_text(yaml.safe_dump(made | {"store": str(tmp_path / "store")}), "utf-8")
    corpus = prepare(load(file), workers=1).store.corpora[-1]
    assert (corpus.name, len(corpus) > 0) == ("de-fr", True)


def test_text_files_give_the_same_and_may_stand_beside_themselves(run, whole, tmp_path):
    path = str(run[2] / "train.{lang}")
    job = job_of(run, tmp_path / "text", store=None, corpus=None, text=path)
    assert distil(job) == whole[0]
    assert texts(job) == whole[1]
    alone = job_of(run, tmp_path / "own", store=None, corpus=None, text=path, beside="en")
    distil(alone)
    pairs = list(read_pair(str(tmp_path / "own" / "en-fr.{lang}"), ("en", "fr")))
    assert len(pairs) == whole[0]["kept"]
    assert pairs[0][0].split()[0] == "zero"


def test_two_processes_make_the_same_bytes(run, whole, tmp_path):
    job = job_of(run, tmp_path)
    assert distil(job, rank=1, size=2) is None
    assert sorted(path.name for path in (tmp_path / "shards").iterdir()) == [
        f"{number:08d}.tsv" for number in (1, 3, 5)
    ]
    assert distil(job, rank=0, size=2) == whole[0]
    assert texts(job) == whole[1]
    assert not (tmp_path / "shards").exists()


def test_a_process_that_comes_late_leaves_what_the_first_has_joined(
    run, whole, tmp_path, monkeypatch
):
    """All was made before a restart; the first process joins it while the second still looks."""
    job = job_of(run, tmp_path)
    distil(job, rank=1, size=2)
    read = offline.read_facts

    def meanwhile(*args):
        known = read(*args)
        monkeypatch.undo()
        distil(job, rank=0, size=2)
        return known

    monkeypatch.setattr(offline, "read_facts", meanwhile)
    distil(job, rank=1, size=2)
    assert texts(job) == whole[1]
    assert not (tmp_path / "shards").exists()


def test_what_is_finished_is_not_made_again(run, whole, tmp_path, monkeypatch):
    job, calls, translate = job_of(run, tmp_path), [], Translator.translate

    def counted(self, lines, *args, **kwargs):
        calls.append(len(lines))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return translate(self, lines, *args, **kwargs)

    monkeypatch.setattr(Translator, "translate", counted)
    with pytest.raises(KeyboardInterrupt):
        distil(job)
    assert not any(path.exists() for path in job.results())
    assert distil(job) == whole[0]
    assert calls == [9] * 4 + [9, 9, 9, 6]
    assert texts(job) == whole[1]
    assert distil(job) == whole[0]  # nothing left to do
    assert len(calls) == 8


def test_killed_and_run_again(run, whole, tmp_path):
    """kill -9 at a step of writing: a shard."""
    job, output = job_of(run, tmp_path / "out"), tmp_path / "output"
    args = arguments(job)
    # Not at another step each: starting a process takes longer than all it does.
    assert run_fork(args, output, Fault(at=15, events="disk")) == -signal.SIGKILL
    assert run_fork(args, output) == 0, output.read_text()
    assert "of 60 pairs kept" in output.read_text()
    assert texts(job) == whole[1]


def test_the_command_takes_its_share_from_torchrun(run, whole, tmp_path, monkeypatch):
    job = job_of(run, tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = []
    for rank in "10":
        monkeypatch.setenv("RANK", rank)
        result = CliRunner().invoke(accord, [*arguments(job), "--quiet"])
        assert result.exit_code == 0, result.output
        said.append((result.stdout, result.stderr))
    assert said == [
        ("", ""),
        (f"{tmp_path}/de-fr.{{lang}}\n", "60 of 60 pairs kept, from 7 shards\n"),
    ]
    assert texts(job) == whole[1]


def test_translations_that_loop_are_dropped_and_counted(run, tmp_path):
    job = job_of(run, tmp_path, least_bigrams=1.0)
    account = distil(job)
    assert account["distinct_bigrams"] > 0
    dropped = sum(n for name, n in account.items() if name not in ("lines", "kept", "shards"))
    assert account["kept"] + dropped == LINES
    assert texts(job)[0].count(b"\n") == texts(job)[1].count(b"\n") == account["kept"]


def test_empty_lines_are_counted_and_tabs_do_no_harm(run, tmp_path):
    for language, lines in {"en": ["one\ttwo", "", "three"], "de": ["eins\tzwei", "x", ""]}.items():
        (tmp_path / f"odd.{language}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    job = job_of(run, tmp_path, store=None, corpus=None, text=str(tmp_path / "odd.{lang}"))
    account = distil(job)
    assert (account["lines"], account["empty"]) == (3, 2)
    assert account["kept"] + account.get("no_translation", 0) == 1
    assert set(texts(job)[0].decode().splitlines()) <= {"eins zwei"}


def test_another_command_in_the_same_place_is_refused(run, tmp_path):
    distil(job_of(run, tmp_path), rank=1, size=2)
    offline_job.write_facts(job_of(run, tmp_path), {"wanted": job_of(run, tmp_path).wanted()})
    for changes in ({"to": "de", "beside": "en"}, {"shard_lines": 5}, {"search": SearchSettings()}):
        with pytest.raises(AccordError, match="other translations were begun here") as error:
            distil(job_of(run, tmp_path, **changes))
        assert "--out" in error.value.fix
    assert len(list((tmp_path / "shards").iterdir())) == 3


def test_damage_is_named(run, tmp_path):
    job = job_of(run, tmp_path)
    distil(job, rank=1, size=2)
    shard = job.shard(3)
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(AccordError, match="the shard is damaged") as error:
        distil(job)
    assert str(shard) == error.value.where
    shard.unlink()
    distil(job)
    job.results()[1].write_text("something else\n")
    with pytest.raises(AccordError, match="not what was written"):
        distil(job)
    facts = tmp_path / "distil.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"account": {}}))
    with pytest.raises(AccordError, match="the account is damaged"):
        distil(job)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": "en-cs"}, "no corpus en-cs"),
        ({"beside": "cs"}, "has no cs"),
        ({"to": "cs"}, "does not know the language 'cs'"),
        ({"to": "en"}, "from en into en"),
        ({"corpus": None}, "either a text or a corpus of a store"),
        ({"text": "x.{lang}"}, "either a text or a corpus of a store"),
    ],
)
def test_what_cannot_be_is_refused_at_once(run, tmp_path, changes, message):
    with pytest.raises(AccordError, match=message) as error:
        distil(job_of(run, tmp_path, **changes))
    assert error.value.fix


def test_a_command_that_could_not_begin_does_not_stand_in_the_way(run, whole, tmp_path):
    for changes in ({"corpus": "en-cs"}, {"via": "cs"}):
        with pytest.raises(AccordError):
            distil(job_of(run, tmp_path, **changes))
    assert distil(job_of(run, tmp_path)) == whole[0]


def test_an_empty_text_is_no_corpus(run, tmp_path):
    (tmp_path / "none.en").touch()
    text = {"text": str(tmp_path / "none.{lang}"), "store": None, "corpus": None}
    job = job_of(run, tmp_path / "out", beside="en", **text)
    with pytest.raises(AccordError, match="nothing to translate"):
        distil(job)
    assert not any(path.exists() for path in job.results())


@pytest.mark.parametrize("name", ["manifest.json", "experiment.yaml", "export.json", "de-fr.fr"])
def test_results_do_not_go_where_something_else_is(run, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(AccordError, match=f"something else here already: {name}"):
        distil(job_of(run, tmp_path))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
