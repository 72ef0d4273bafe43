"""What a run consists of is believed only as it was written; what is not is said, and healed."""

import json
import shutil

import pytest

from accord.errors import AccordError
from accord.report.contents import read_history
from accord.run_directory import MetricsLog, RunDirectory, read_metrics
from accord.training.trainer import train
from toy_training import Notes, experiment, prepared, story, without_seals

STEPS = 10
# Every file that a later command believes, and what reads it.
READERS = {
    "experiment.yaml": lambda run: run.experiment(),
    "environment.json": lambda run: run.environment(),
    "manifest.json": lambda run: run.manifest(),
    "vocabulary.model": lambda run: run.vocabulary(),
    "token_counts.npz": lambda run: run.token_counts("de"),
    "held_out/dev/all.de.txt": lambda run: run.held_out.pair("dev", "de", "fr"),
    "metrics.jsonl": lambda run: list(read_metrics(run.metrics)),
    "metrics.seal": lambda run: list(read_metrics(run.metrics)),
}
DAMAGES = {
    "a bit": lambda data, place: data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :],
    "a byte of no alphabet": lambda data, place: data[:place] + b"\xff" + data[place + 1 :],
    "a block": lambda data, place: data[:place] + b"Z" * len(data[place:]),
    "the end": lambda data, place: data[:place],
    "everything": lambda data, place: b"",
    "the file": None,
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("trained") / "run"


@pytest.fixture(scope="module")
def trained(toy, place):
    train(experiment(toy, place, training__steps=STEPS))
    return shutil.copytree(place, place.with_name("as it was"))


@pytest.fixture
def run(trained, place):
    """The run in its place, which is part of its experiment, as it was written."""
    shutil.rmtree(place)
    return shutil.copytree(trained, place)


def spoil(file, damage, share=0.6):
    data = file.read_bytes()
    file.unlink()
    if DAMAGES[damage] is not None:
        file.write_bytes(DAMAGES[damage](data, int(len(data) * share)))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_no_damaged_file_is_believed(run, name, damage):
    read = READERS[name]
    read(RunDirectory(run))
    for share in (0, 0.3, 0.6, 0.999):
        whole = (run / name).read_bytes()
        spoil(run / name, damage, share)
        with pytest.raises(AccordError) as error:
            read(RunDirectory(run))
        assert str(run) in error.value.where
        assert "accord train" in error.value.fix
        (run / name).write_bytes(whole)


@pytest.mark.parametrize("name", READERS)
def test_training_heals_what_it_can_and_says_so(toy, trained, run, name):
    spoil(run / name, "a bit")
    notes, settings = Notes(), experiment(toy, run, training__steps=STEPS)
    # Whether the experiment is the same cannot be known: only somebody else can say so.
    accept = name == "experiment.yaml"
    if accept:
        with pytest.raises(AccordError, match="cannot be compared"):
            train(settings)
    train(settings, accept_changes=accept, progress=notes)
    assert any(name in note for note in notes.notes) or name == "environment.json"
    READERS[name](RunDirectory(run))
    lost = sum("line" in note and "left out" in note for note in notes.notes)
    assert lost == (name == "metrics.jsonl")
    if not lost:
        assert story(run, STEPS) == story(trained, STEPS)


def test_a_manifest_of_other_data_cannot_be_healed(toy, run):
    """Checkpoints know which data they were trained on."""
    (run / "manifest.json").write_text("{")
    other = prepared(run, lines=50)
    settings = experiment(other, run, training__steps=STEPS)
    with pytest.raises(AccordError, match="the manifest is damaged"):
        train(settings, accept_changes=True)


def test_a_run_of_before_there_were_seals_is_read_and_gets_them(toy, trained, run):
    without_seals(run)
    for read in READERS.values():
        read(RunDirectory(run))
    train(experiment(toy, run, training__steps=STEPS))
    assert RunDirectory(run).manifest()["run"]["format"] == 2
    assert story(run, STEPS) == story(trained, STEPS)
    assert [json.loads(line)["seal"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("line", [b"5", b"[]", b'{"kind": "train"}', b"\xff\xfe", b"[" * 100_000])
def test_a_bad_line_in_an_old_log_is_an_error_too(run, line):
    without_seals(run)
    log = run / "metrics.jsonl"
    first, *rest = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([first, line, *rest]))
    with pytest.raises(AccordError, match="line 2 is not what was written"):
        list(read_metrics(log))


def test_a_line_of_an_old_log_that_lacks_a_figure(run):
    without_seals(run)
    log = run / "metrics.jsonl"
    log.write_text(log.read_text().replace('"nll"', '"nlm"', 1))
    with pytest.raises(AccordError, match="lacks what it should hold"):
        read_history(log)


def test_a_kill_in_the_middle_of_a_line_is_no_damage(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, 0)
    log.write("train", 1, {"nll": 1.0})
    log.sync()
    log.write("train", 2, {"nll": 0.5})
    log.close()
    whole = path.read_bytes()
    for size in range(len(whole.split(b"\n")[0]) + 1, len(whole) + 1):
        path.write_bytes(whole[:size])
        assert [entry["step"] for entry in read_metrics(path)] in ([1], [1, 2])
    path.write_bytes(whole.split(b"\n")[1] + b"\n")  # but one that was synced is lost
    notes = []
    assert len(list(read_metrics(path))) == 1
    path.write_bytes(b"")
    with pytest.raises(AccordError, match="0 lines where there were 1"):
        list(read_metrics(path))
    MetricsLog(path, 2, notes.append).close()
    assert notes == ["metrics.jsonl: it has 0 lines where there were 1; left out"]
    assert list(read_metrics(path)) == []


def test_what_is_given_in_place_of_a_run_is_named(run, toy, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "export.json").touch()
    (run / "experiment.yaml").unlink()
    for place, what, fix in (
        (run.with_name("rum"), "it is not there", "did you mean"),
        (tmp_path / "file", "it is a file", "accord train"),
        (tmp_path / "export", "it is an exported model", "the run that was exported"),
        (toy.parent / "store", "it is a store", "train on it"),
        (run, "it has no experiment.yaml", "--accept-changes"),
        (tmp_path, "it has no experiment.yaml", "that `accord train` wrote"),
    ):
        with pytest.raises(AccordError, match="this is no run directory") as error:
            RunDirectory(place).experiment()
        assert what in error.value.what
        assert fix in error.value.fix


def test_old_token_counts_that_cannot_be_read_are_an_error(run):
    """A run of before has no checksum of them: what NumPy raises must do."""
    without_seals(run)
    file = run / "token_counts.npz"
    data = file.read_bytes()
    refused = []
    for place in range(0, len(data), 7):
        file.write_bytes(data[:place] + bytes([data[place] ^ 64]) + data[place + 1 :])
        try:
            RunDirectory(run).token_counts("de")
        except AccordError as error:
            refused.append(error.where)
    assert set(refused) == {str(file)}
    assert len(refused) > 10
