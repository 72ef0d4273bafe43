import json
import shutil

import numpy as np
import pytest
import torch
import yaml

from accord.config.load import load, run_directory, store_directory
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.errors import AccordError
from accord.inference.backends.base import LoadSettings
from accord.inference.backends.torch_backend import TorchBackend, pick_device
from accord.inference.results import Loss, SearchSettings
from accord.inference.scoring import text_cross_entropies
from accord.inference.translator import Translator
from accord.models.build import build_model
from accord.models.checkpoint import Checkpoints, average, find_checkpoint
from accord.run_directory import RunDirectory
from accord.training.begin import begin_run
from accord.training.optim import build_optimizer

LANGUAGES = ["en", "de", "fr", "it"]
WORDS = "ab cd ef gh ij kl mn op".split()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with three checkpoints of random weights: en-de and de-fr have data, it-en as well."""
    directory = tmp_path_factory.mktemp("run")
    for language in LANGUAGES:
        lines = [
            " ".join(language + WORDS[(i // 8**k) % 8] for k in range(1 + i % 4)) for i in range(99)
        ]
        (directory / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    file = directory / "toy.yaml"
    experiment = {
        "languages": LANGUAGES,
        "corpora": [
            {"pair": pair, "train": str(directory / "train.{lang}"), "directions": directions}
            for pair, directions in (("en-de", "both"), ("de-fr", "both"), ("it-en", "forward"))
        ],
        "overlap": "keep",
        "vocabulary": {"size": 400},
        "model": {"units": 8, "preset": "gnmt3"},
        "store": str(directory / "store"),
        "run": str(directory / "run"),
    }
    file.write_text(yaml.safe_dump(experiment))
    settings = load(file)
    prepare(settings, workers=1)
    store = Store(store_directory(settings))
    found = RunDirectory(run_directory(settings))
    begin_run(found, settings, store, False)
    for step in (10, 20, 30):
        model = build_model(settings.model, len(store.vocabulary), settings.training_seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0 + step / 100)
            model.target_embedding.weight[1] *= 1.5
        optimizer = build_optimizer("adam", model)
        Checkpoints(found.checkpoints).save(step, model, optimizer, {"best_step": 20})
    return found.path


@pytest.fixture(scope="module")
def translator(run) -> Translator:
    return Translator(run, device="cpu", threads=1)


LINES = ["ab cd", "", "ef", "gh ij kl mn", "op ab ab"]
QUICK = SearchSettings(beam=2)


def texts(found) -> list[str]:
    return [item.text for item in found]


def test_checkpoints_are_found_by_name(run):
    directory = RunDirectory(run)
    assert find_checkpoint(directory.path, "best").step == 20
    assert find_checkpoint(directory.path, "last").step == 30
    assert find_checkpoint(directory.path, "step-00000010").step == 10
    with pytest.raises(AccordError, match="accord average"):
        find_checkpoint(directory.path, "average")
    with pytest.raises(AccordError, match="step-00000010, step-00000020, step-00000030"):
        find_checkpoint(directory.path, "step-7")


def test_weights_of_the_chosen_checkpoint_are_used(run, tmp_path):
    def weight(name: str, path=run):
        model = TorchBackend.load(path, LoadSettings(name, device="cpu", threads=1)).model
        return model.target_embedding.weight

    assert not torch.equal(weight("best"), weight("last"))
    assert torch.equal(weight("best"), weight("step-00000020"))
    copy = shutil.copytree(run, tmp_path / "run")
    paths = Checkpoints(RunDirectory(copy).checkpoints).paths()
    average([paths[0], paths[2]], copy / "checkpoints" / "average")
    mean = (weight("step-00000010") + weight("last")) / 2
    torch.testing.assert_close(weight("average", copy), mean)


def test_without_a_validation_the_last_checkpoint_is_the_best(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    directory = RunDirectory(copy)
    settings = directory.experiment()
    model = build_model(settings.model, len(directory.vocabulary()), settings.training_seed)
    Checkpoints(directory.checkpoints).save(
        40, model, build_optimizer("adam", model), {"best_step": None}
    )
    assert find_checkpoint(directory.path, "best").step == 40


def test_a_run_without_checkpoints_or_no_run_at_all(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(AccordError, match="no checkpoint yet"):
        Translator(copy)
    with pytest.raises(AccordError, match="no run directory"):
        Translator(tmp_path)


def test_unknown_languages_are_named(translator):
    for call in (
        lambda: translator.translate(LINES, "xx"),
        lambda: translator.translate(LINES, "de", via="xx"),
        lambda: translator.translate(LINES, "de", source="xx"),
        lambda: translator.stream(LINES, "xx"),
        lambda: translator.cross_entropy(LINES, LINES, "xx"),
    ):
        with pytest.raises(AccordError, match="en, de, fr, it"):
            call()


def test_a_language_into_itself_is_refused(translator):
    for source, via, to in (("de", None, "de"), ("fr", "de", "de"), ("fr", ["en", "en"], "de")):
        with pytest.raises(AccordError, match="into"):
            translator.translate(LINES, to, source=source, via=via)


def test_the_way_through_the_graph(translator):
    found = translator.translate(LINES, "fr", source="en", via="auto", settings=QUICK)
    assert found[0].via == ("de",)
    named = translator.translate(LINES, "fr", via="de", settings=QUICK)
    assert texts(found) == texts(named)
    listed = translator.translate(LINES, "fr", via=["de"], settings=QUICK)
    assert texts(listed) == texts(named)
    direct = translator.translate(LINES, "de", source="en", via="auto", settings=QUICK)
    assert direct == translator.translate(LINES, "de", settings=QUICK)
    assert direct[0].via == ()
    with pytest.raises(AccordError, match="--from"):
        translator.translate(LINES, "fr", via="auto")
    with pytest.raises(AccordError, match="no chain"):
        translator.translate(LINES, "it", source="en", via="auto")


def test_the_pivot_is_two_calls(translator):
    first = texts(translator.translate(LINES, "en", settings=QUICK))
    second = texts(translator.translate(first, "fr", settings=QUICK))
    assert texts(translator.translate(LINES, "fr", via="en", settings=QUICK)) == second


def test_a_stream_keeps_its_order_and_reads_no_more_than_it_must(translator):
    read = []

    def lines():
        for i in range(1000):
            read.append(i)
            yield LINES[i % len(LINES)]

    found = translator.stream(lines(), "de", settings=QUICK, at_once=4)
    assert read == []
    first = [next(found) for _ in range(6)]
    assert len(read) == 8
    expected = translator.translate([LINES[i % len(LINES)] for i in range(6)], "de", settings=QUICK)
    assert texts(first) == texts(expected)
    assert texts(translator.stream(iter(LINES), "de", settings=QUICK)) == texts(
        translator.translate(LINES, "de", settings=QUICK)
    )


def test_the_target_vocabulary_is_that_of_the_training_text(translator, run):
    settings = SearchSettings(beam=2, vocabulary="target")
    counts = RunDirectory(run).token_counts("fr")
    found = translator.translate(LINES, "fr", settings=settings)
    used = {i for item in found for i in item.hypotheses[0].ids}
    assert used
    assert all(counts[i] > 0 for i in used)


def test_cross_entropies_add_up_to_that_of_validation(translator, run):
    references = ["deab decd", "deef", "degh deij", "dekl", "demn deop"]
    found = translator.cross_entropy(LINES, references, "de")
    loaded = TorchBackend.load(run, LoadSettings(device="cpu", threads=1))
    rows = text_cross_entropies(
        loaded.model, translator.vocabulary, LINES, references, "de", device=loaded.device
    )
    mean = Loss.total(rows).per_token
    assert sum(nll for nll, _ in found) / sum(n for _, n in found) == pytest.approx(mean, rel=1e-5)


def test_cross_entropy_does_not_depend_on_the_company(translator):
    sources, references = ["ab cd", "", "ef gh ij kl mn"], ["deab", "", "deop " * 30]
    together = translator.cross_entropy(sources, references, "de")
    for pair, (nll, tokens) in zip(zip(sources, references, strict=True), together, strict=True):
        [(alone, count)] = translator.cross_entropy([pair[0]], [pair[1]], "de")
        assert nll == pytest.approx(alone, rel=1e-5)
        assert tokens == count
    assert together[1][1] == 1  # nothing but the end


def test_devices_that_are_not_there():
    assert pick_device("cpu") == torch.device("cpu")
    for name in ("tpu9", "cuda:99"):
        with pytest.raises(AccordError, match="cannot compute"):
            pick_device(name)


def test_bf16_translates_too(run):
    fast = TorchBackend.load(run, LoadSettings(device="cpu", threads=1, precision="bf16"))
    assert fast.bf16
    assert len(Translator.of(fast).translate(LINES, "de", settings=QUICK)) == len(LINES)


def test_a_damaged_best_checkpoint_is_an_error(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    state = copy / "checkpoints" / "step-00000020" / "state.json"
    state.write_text(json.dumps({"step": 20}))
    with pytest.raises(AccordError, match="damaged"):
        Translator(copy)


def test_an_ensemble_reads_the_text_and_its_pivots_at_once(translator):
    found = translator.translate(LINES, "fr", ensemble="direct,via:en", settings=QUICK)
    pivots = texts(translator.translate(LINES, "en", settings=QUICK))
    given = translator.translate_together([LINES, pivots], "fr", settings=QUICK)
    assert texts(found) == texts(given)
    streamed = translator.stream(
        iter(LINES), "fr", source="de", ensemble="direct,via:en", settings=QUICK, at_once=2
    )
    assert texts(streamed) == texts(found)
    assert [reading.via for reading in found[0].ensemble] == [(), ("en",)]
    assert found[1].text == ""  # an empty line
    one_sided = translator.translate_together([LINES, pivots], "fr", weights=[1, 0], settings=QUICK)
    assert texts(one_sided)[0] == texts(translator.translate(LINES, "fr", settings=QUICK))[0]


def test_a_text_is_no_list_of_texts(translator):
    with pytest.raises(AccordError, match="not the text 'the big house'"):
        translator.translate("the big house", "fr")
    with pytest.raises(AccordError, match="not the text 'house'"):
        translator.translate_together(["house", "Haus"], "fr")


@pytest.mark.parametrize(
    ("sources", "weights"),
    [([], None), ([["a", "b"], ["a"]], None), ([["a"], ["b"]], [1]), ([["a"]], [])],
)
def test_texts_that_do_not_go_together_are_refused(translator, sources, weights):
    with pytest.raises(AccordError, match="are no ensemble") as error:
        translator.translate_together(sources, "fr", weights=weights)
    assert "one length" in error.value.fix


def test_weights_may_be_an_array(translator):
    given = translator.translate_together([LINES, LINES], "fr", settings=QUICK, weights=(0.5, 0.5))
    other = translator.translate_together(
        [LINES, LINES], "fr", settings=QUICK, weights=np.array([1.0, 1.0])
    )
    assert texts(given) == texts(other)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"ensemble": "direct,via:xx"}, "en, de, fr, it"),
        ({"ensemble": "direct,via:fr"}, "fr is the target"),
        ({"ensemble": "direct,via:de", "source": "de"}, "de is the source"),
        ({"ensemble": "direct,via:en", "via": "en"}, "either by an ensemble or via"),
        ({"ensemble": "direct,via:en", "source": "xx"}, "'xx'"),
        ({"ensemble": "direct"}, "one member"),
    ],
)
def test_an_ensemble_that_makes_no_sense_is_refused_before_any_line_is_read(translator, keys, said):
    with pytest.raises(AccordError, match=said):
        translator.translate(LINES, "fr", **keys)
    with pytest.raises(AccordError, match=said):
        translator.stream(iter(LINES), "fr", **keys)


def test_an_ensemble_reads_one_translation_into_a_pivot(translator):
    settings = SearchSettings(beam=2, pivot_nbest=2)
    with pytest.raises(AccordError, match="pivot_nbest cannot be 2"):
        translator.translate(LINES, "fr", ensemble="direct,via:en", settings=settings)
