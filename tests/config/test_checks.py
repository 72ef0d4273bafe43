"""Every rule between keys is said by `accord config`, with place, value and remedy."""

import pytest

from accord.cli import app
from accord.config.load import dump, load
from accord.config.shipped import recipe
from accord.errors import AccordError

STAR = """\
languages: [en, de, fr]
corpora:
  - {pair: en-de, train: "a.{lang}"}
  - {pair: en-fr, train: ["b.{lang}", {path: c.tsv}]}
dev: dev.{lang}
"""
PAIR = """\
languages: [en, de]
corpora:
  - {pair: en-de, train: "a.{lang}"}
"""
ONE_WAY = """\
languages: [en, de, fr]
corpora:
  - {pair: de-en, train: "a.{lang}", directions: forward}
  - {pair: fr-en, train: "b.{lang}", directions: forward}
"""


def config(tmp_path, text, *overrides):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    options = [part for item in overrides for part in ("--set", item)]
    app(["config", str(path), *options], standalone_mode=False)


def complaint(tmp_path, text, *overrides) -> str:
    with pytest.raises(AccordError) as caught:
        config(tmp_path, text, *overrides)
    return str(caught.value)


def test_the_recipes_keep_all_rules(tmp_path, capsys):
    config(tmp_path, STAR)
    assert "kind: gnmt" in capsys.readouterr().out
    with pytest.raises(AccordError, match="a beam of 1 finds no 4 translations") as caught:
        load(recipe("demo"), ["objective.complete.search.nbest=4"])
    assert caught.value.where == (
        "--set objective.complete.search.nbest=4, key objective.complete.search.nbest"
    )


@pytest.mark.parametrize(
    "overrides", [("run=one", "store=./one"), ("run=stores/{name}",), ("store=runs//x",)]
)
def test_a_run_does_not_lie_in_its_store(tmp_path, overrides):
    said = complaint(tmp_path, STAR, *overrides)
    assert "key run: " in said
    assert "is the directory of the store as well" in said


COMPLETE = [
    ("search.nbest=4", "a beam of 1 finds no 4", "give a larger search.beam"),
    ("select=agreement", "there is only one", "give search.nbest"),
    (
        "teacher={kind: ema, run: x}",
        "cannot teach where the teacher is ema",
        "leave teacher.run out",
    ),
    ("teacher.checkpoint=average", "average is a checkpoint of another run", "(teacher.run)"),
    ("filters.length_ratio=[2.0, 1.0]", "no length lies between 2 and 1", "smaller number first"),
    ("search={sample: 1.0, beam: 4}", "one translation is drawn, but a beam of 4", "leave one of"),
    ("teacher.tokens=all", "targets of back-translation are gold", "tokens to 64 or less"),
    (
        "directions=[de-fr, en-fr]",
        "no synthetic pairs can be made for en-fr",
        "take some of de-fr, fr-de",
    ),
    ("parts=[latent]", "no training pair can be completed: with data for en-de", "add a corpus"),
]


@pytest.mark.parametrize(("item", "what", "fix"), COMPLETE)
def test_synthetic_pairs_that_cannot_be_made(tmp_path, item, what, fix):
    message = complaint(tmp_path, STAR, f"objective.complete.{item}")
    assert message.startswith(f"--set objective.complete.{item}, key objective.complete")
    assert what in message
    assert fix in message
    config(tmp_path, STAR, f"objective.complete.{item}", "objective.complete.weight=0")


def test_both_sides_are_heard_once(tmp_path):
    changes = ["select=agreement", "search={beam: 2, nbest: 2}", "teacher.vote=0.5"]
    message = complaint(tmp_path, STAR, *(f"objective.complete.{item}" for item in changes))
    assert "key objective.complete.select: both sides are heard twice" in message
    config(tmp_path, STAR, *(f"objective.complete.{item}" for item in changes[:2]))


def test_a_whole_softmax_is_for_targets_that_a_teacher_made(tmp_path):
    changes = [
        "objective.complete=word-sampling",
        "objective.complete.parts=[distillation, round-trip]",
    ]
    message = complaint(tmp_path, STAR, *changes)
    assert "key objective.complete.teacher.tokens" in message
    assert "targets of round-trip are gold" in message


def test_a_whole_softmax_is_of_one_sentence(tmp_path):
    changes = ["objective.complete=word-sampling", "objective.complete.teacher.vote=0.5"]
    message = complaint(tmp_path, STAR, *changes)
    assert "key objective.complete.teacher.tokens" in message
    assert "is of one sentence, but two vote (0.5)" in message
    assert "leave teacher.vote out" in message
    config(tmp_path, STAR, *changes, "objective.complete.teacher.tokens=8")
    ensemble = "objective.complete.teacher={tokens: all, run: x, checkpoint: ensemble}"
    assert "is of one model" in complaint(tmp_path, STAR, changes[0], ensemble)


def test_a_guard_needs_dev_sentences(tmp_path):
    text = STAR.replace("dev: dev.{lang}\n", "")
    message = complaint(tmp_path, text, "objective.complete.teacher.kind=rounds")
    assert "key objective.complete.teacher.guard" in message
    assert "no dev sentences to measure it on" in message
    config(tmp_path, text, "objective.complete.teacher={kind: rounds, guard: false}")
    config(tmp_path, STAR, "objective.complete.teacher.kind=rounds")


@pytest.mark.parametrize("text", [PAIR, ONE_WAY])
def test_no_pair_can_be_completed(tmp_path, text):
    message = complaint(tmp_path, text, "objective.complete={}")
    assert "no training pair can be completed" in message
    assert "de-en" in message


def test_nothing_to_agree_on(tmp_path):
    message = complaint(tmp_path, PAIR + "objective:\n  agreement: {start: 3}\n")
    assert f"{tmp_path / 'x.yaml'}, line 5, key objective.agreement" in message
    assert "nothing to agree on" in message
    assert "weight to 0" in message
    assert "nothing to agree on" in complaint(
        tmp_path, PAIR, "objective.agreement={weight: 0, encoder_weight: 1}"
    )
    config(tmp_path, PAIR, "objective.agreement.weight=0")
    config(tmp_path, PAIR, "objective.agreement={auxiliary: all, protect: none}")


def test_nothing_to_translate_back(tmp_path):
    change = "objective.back_translation={languages: zero-shot}"
    message = complaint(tmp_path, PAIR, change)
    assert message.startswith(f"--set {change}, key objective.back_translation.languages")
    assert "nothing to translate back" in message
    assert "`languages: all`" in message
    config(tmp_path, PAIR, change, "objective.back_translation.weight=0")
    config(tmp_path, PAIR, "objective.back_translation={}")
    config(tmp_path, STAR, change)


def test_sentences_to_fill_in_are_of_a_known_language(tmp_path):
    change = "objective.denoise.languages=[en, es]"
    message = complaint(tmp_path, STAR, change)
    assert message.startswith(f"--set {change}, key objective.denoise.languages")
    assert "'es' is not in `languages`" in message
    assert "choose from en, de, fr" in message
    config(tmp_path, STAR, change, "objective.denoise.weight=0")
    config(tmp_path, STAR, "objective.denoise.languages=[de]")


def agreement(tmp_path, text, *overrides):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return load(path, overrides).objective.agreement


def test_one_word_gives_the_papers_agreement(tmp_path):
    paper = agreement(tmp_path, STAR, "objective.agreement=paper")
    ours = agreement(tmp_path, STAR, "objective.agreement={}")
    five = {
        "auxiliary": "all",
        "relative_length": False,
        "measure": "cross-entropy",
        "feedback_gradient": True,
        "gradient_limit": None,
    }
    changed = {key: value for key, value in paper if value != getattr(ours, key)}
    assert changed == {"preset": "paper", **five}
    assert agreement(tmp_path, STAR, "objective.agreement=accord") == ours


def test_further_keys_of_agreement_go_with_its_preset(tmp_path):
    text = STAR + "objective: {agreement: paper}\n"
    found = agreement(tmp_path, text, "objective.agreement.measure=kl")
    assert (found.preset, found.measure, found.auxiliary) == ("paper", "kl", "all")
    message = complaint(tmp_path, STAR + "objective: {agreement: papre}\n")
    assert f"{tmp_path / 'x.yaml'}, line 6, key objective.agreement.preset: 'papre'" in message
    assert "'accord' or 'paper'" in message


@pytest.mark.parametrize("preset", ["accord", "paper"])
def test_an_experiment_written_out_in_full_is_read_as_it_stands(tmp_path, preset):
    """As in a run directory: no preset changes what is given."""
    path = tmp_path / "x.yaml"
    path.write_text(STAR)
    changes = [f"objective.agreement={{preset: {preset}, gradient_limit: 2.0, auxiliary: all}}"]
    first = load(path, changes)
    path.write_text(dump(first))
    assert load(path) == first


@pytest.mark.parametrize(
    ("model", "key", "what", "fix"),
    [
        ("{decoder_layers: 3}", "decoder_layers", "3 decoder layers", "to 4, or leave it out"),
        (
            "{preset: gnmt3, encoder_layers: 4, decoder_layers: 3}",
            "decoder_layers",
            "cannot start from 4 encoder states",
            "set decoder_layers to 4",
        ),
        ("{preset: gnmt3, encoder_layers: 1}", "encoder_layers", "has 1 layer", "at least 2"),
        ("{kind: rnn}", "kind", "'rnn'", "The architecture"),
    ],
)
def test_layers_that_do_not_fit(tmp_path, model, key, what, fix):
    message = complaint(tmp_path, f"{STAR}model: {model}\n")
    assert f"line 6, key model.{key}" in message
    assert what in message
    assert fix in message


@pytest.mark.parametrize(
    ("old", "new", "key", "what", "fix"),
    [
        (
            "c.tsv",
            "c.txt",
            "corpora.1.train.1.path",
            "'c.txt': the path has no {lang}",
            "as in corpus.{lang}",
        ),
        ("c.tsv", "'c.{lang}.tsv'", "corpora.1.train.1.path", "a tsv file holds both", "{lang}"),
        ("c.tsv", "'c.{x}.tsv'", "corpora.1.train.1.path", "braces other than", "placeholder"),
        ("c.tsv", "c.tar.gz", "corpora.1.train.1.path", "an archive holds texts", "::name/of"),
        ("c.tsv", "c.tsv::m", "corpora.1.train.1.path", "c.tsv is not an archive", ".zip"),
        ("c.tsv", "'c.tar::'", "corpora.1.train.1.path", "'' is not the name", "archive::member"),
        ("c.tsv", "c.tsv.gz.01", "corpora.1.train.1.path", "a later volume", "c.tsv.gz.00"),
        (
            "c.tsv",
            "c.zip.00::x.tsv",
            "corpora.1.train.1.path",
            "split zip archive cannot",
            "join its volumes",
        ),
        (
            "path: c.tsv",
            "path: 'c.{lang}', columns: {en: 0, fr: 1}",
            "corpora.1.train.1.columns",
            "the format is text",
            "set format: tsv",
        ),
        (
            "path: c.tsv",
            "path: c.tsv, columns: {en: 0}",
            "corpora.1.train.1.columns",
            "which column is fr: {'en': 0}",
            "such as fr: 1",
        ),
        ("dev.{lang}", "dev.tmx", "dev.path", "'dev.tmx': a tmx file can only", "under its pair"),
        (
            "dev.{lang}",
            "[{pair: en-de, path: dev.txt}]",
            "dev.sets.0.path",
            "'dev.txt': the path has no {lang}",
            "write {lang}",
        ),
    ],
)
def test_paths_that_cannot_be_of_their_format(tmp_path, old, new, key, what, fix):
    message = complaint(tmp_path, STAR.replace(old, new))
    assert f"{tmp_path / 'x.yaml'}, line" in message
    assert f"key {key}" in message
    assert what in message
    assert fix in message


def test_paths_that_the_environment_completes_are_left_to_prepare(tmp_path, monkeypatch):
    """A run that was moved to another machine can be read there."""
    monkeypatch.delenv("ACCORD_TEXTS", raising=False)
    config(tmp_path, STAR.replace("a.{lang}", "${ACCORD_TEXTS}/a.{lang}"))


def test_a_vocabulary_has_room_for_text(tmp_path):
    codes = [f"{a}{b}" for a in "abcdefg" for b in "abcdefg"][:41]
    corpora = [{"pair": f"{codes[0]}-{code}", "train": "a.{lang}"} for code in codes[1:]]
    text = f"languages: {codes}\ncorpora: {corpora}\n"
    message = complaint(tmp_path, text, "vocabulary.size=300")
    assert "key vocabulary.size: 300 entries leave none for text" in message
    assert "41 languages take 300" in message
    config(tmp_path, text, "vocabulary.size=301")


def test_agreement_cannot_choose_where_nothing_can_be_measured(tmp_path):
    by_agreement = "training.validation.metric=agreement"
    message = complaint(tmp_path, STAR.replace("dev: dev.{lang}\n", ""), by_agreement)
    assert "key training.validation.metric: agreement is measured on dev sentences" in message
    assert "add a dev set" in message
    message = complaint(tmp_path, PAIR + "dev: dev.{lang}\n", by_agreement)
    assert "only one of the two has data into" in message
    config(tmp_path, STAR, by_agreement)


def test_a_rate_falls_once_and_towards_an_end_that_is_known(tmp_path):
    by_clock = "training.optimizer={kind: adam, decay_minutes: 2}"
    assert "no time is set" in complaint(tmp_path, STAR, by_clock)
    config(tmp_path, STAR, by_clock, "training.minutes=9")
    config(tmp_path, STAR, by_clock, "training.branch_minutes=9")
    twice = [by_clock, "training.minutes=9", "training.optimizer.decay=500"]
    assert "falls twice: over 500 updates" in complaint(tmp_path, STAR, *twice)


def test_several_rules_are_said_at_once(tmp_path):
    message = complaint(
        tmp_path, STAR, "objective.complete.search.nbest=4", "model.decoder_layers=3"
    )
    assert message.startswith("2 problems")


WITHOUT_GOLD = "objective.complete={preset: sentence-greedy, gold: false}"
NO_GOLD = [
    ("objective.complete.every=3", "have nothing to learn from, but every is 3", "every to 1"),
    ("objective.complete.start=5", "start is 5", "(teacher.run)"),
    ("objective.agreement={}", "but agreement learns from them", "objective.agreement out"),
    (
        "objective.agreement={weight: 0, encoder_weight: 1, encoder_measure: contrastive}",
        "but agreement learns from them",
        "objective.agreement out",
    ),
    ("objective.denoise={}", "but denoise learns from them", "objective.denoise out"),
    ("objective.consistency={}", "but consistency learns from them", "objective.consistency out"),
    ("training.validation.patience=3", "none can choose the model", "directions to all"),
    ("training.validation.watch=all", "none can choose the model", "the last checkpoint counts"),
]


@pytest.mark.parametrize(("item", "what", "fix"), NO_GOLD)
def test_what_cannot_be_without_gold_pairs(tmp_path, item, what, fix):
    message = complaint(tmp_path, STAR, WITHOUT_GOLD, item)
    assert "key objective.complete" in message
    assert what in message
    assert fix in message
    config(tmp_path, STAR, WITHOUT_GOLD)
    config(tmp_path, STAR, WITHOUT_GOLD.replace("gold: false", "gold: true"), item)


def test_directions_to_train_need_a_corpus(tmp_path):
    def of(given):
        return complaint(tmp_path, STAR, f"training.directions={given}")

    assert "key training.directions.1: no corpus trains de-fr" in of("[en-de, de-fr]")
    assert "take some of en-de, en-fr, de-en, fr-en" in of("[en-de, de-fr]")
    assert "language 'es' of pair 'en-es' is not in `languages`" in of("[en-es]")
    assert "en-de is listed twice" in of("[en-de, en-de]")
    assert "a pair is written as en-de" in of("[german]")
    one_way = complaint(tmp_path, ONE_WAY, "training.directions=[en-de]")
    assert "no corpus trains en-de" in one_way
    message = complaint(tmp_path, STAR, "training.directions=[en-fr]", "objective.complete={}")
    assert "no training pair can be completed: with data for en-fr" in message


def test_what_is_trained_is_supervised_and_the_data_stay_what_they_are(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(STAR)
    whole, part = load(path), load(path, ["training.directions=[en-fr, de-en]"])
    assert list(map(str, part.graph.supervised_directions)) == ["en-fr", "de-en"]
    assert part.data_graph == whole.data_graph == whole.graph
    assert [corpus.pair for corpus in part.trained_corpora] == ["en-de", "en-fr"]
    only = load(path, ["training.directions=[en-fr]"])
    assert [corpus.pair for corpus in only.trained_corpora] == ["en-fr"]


def complete(tmp_path, *overrides):
    path = tmp_path / "x.yaml"
    path.write_text(STAR)
    return load(path, overrides).objective.complete


def test_one_word_gives_distill(tmp_path):
    distill = {
        "weight": 1.0,
        "every": 1,
        "uses": 1,
        "parts": ["distillation"],
        "filters.length_ratio": [0.0, 9.0],
        "filters.distinct_bigrams": 0.0,
    }
    own = {
        "sentence-greedy": {},
        "sentence-beam": {"search.beam": 5},
        "word-sampling": {"search.sample": 1.0, "teacher.tokens": "all"},
    }

    def values(config):
        data = config.model_dump(mode="json")
        inner = {
            f"{k}.{i}": x for k, v in data.items() if isinstance(v, dict) for i, x in v.items()
        }
        return {k: v for k, v in data.items() if not isinstance(v, dict)} | inner

    ours = values(complete(tmp_path, "objective.complete={}"))
    assert ours == values(complete(tmp_path, "objective.complete=accord"))
    for preset, more in own.items():
        found = values(complete(tmp_path, f"objective.complete={preset}"))
        changed = {key: value for key, value in found.items() if value != ours[key]}
        assert changed == {"preset": preset, **distill, **more}
    given = complete(
        tmp_path,
        "objective.complete=word-sampling",
        "objective.complete.teacher.run=runs/x",
        "objective.complete.search.sample=0.5",
        "objective.complete.weight=2.0",
    )
    assert (given.teacher.run, given.teacher.tokens) == ("runs/x", "all")
    assert (given.search.sample, given.weight, given.every) == (0.5, 2.0, 1)
    with pytest.raises(AccordError, match=r"objective\.complete\.preset"):
        complete(tmp_path, "objective.complete=greedy")


PHRASES = STAR + "model: {kind: phrase-based}\n"


def test_a_phrase_based_system_has_its_defaults_and_survives_a_dump(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(PHRASES, encoding="utf-8")
    made = load(path)
    model = made.model
    assert (model.alignment.model, model.phrases.longest, model.reordering) == ("hmm", 7, 4)
    path.write_text(dump(made), encoding="utf-8")
    assert load(path) == made


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.units=64", ("model.units", "leave model.units out")),
        ("model.dropout=0.5", ("model.dropout", "network")),
        ("model.heads=4", ("model.heads", "only a transformer")),
        ("training.steps=10", ("training.steps", "leave training.steps out")),
        ("training.init_from=runs/x", ("training.init_from", "network")),
        ("training.validation.every=5", ("training.validation", "network")),
        ("objective.agreement={}", ("objective.agreement", "network")),
        ("objective.complete={}", ("objective.complete", "network")),
        ("dev=null", ("model.tuning", "model.tuning.evaluations to 0")),
        ("model.alignment.model=ibm9", ("model.alignment.model", "fast-align")),
        ("model.reordering=-1", ("model.reordering", "0 or more")),
    ],
)
def test_keys_of_networks_are_refused_for_a_phrase_based_system(tmp_path, override, words):
    if override == "dev=null":
        found = complaint(tmp_path, PHRASES.replace("dev: dev.{lang}\n", ""))
    else:
        found = complaint(tmp_path, PHRASES, override)
    assert all(word in found for word in words), found


def test_seed_threads_and_no_tuning_are_allowed(tmp_path):
    config(tmp_path, PHRASES, "training.seed=3", "training.threads=2")
    without = PHRASES.replace("dev: dev.{lang}\n", "")
    config(tmp_path, without, "model.tuning.evaluations=0")


@pytest.mark.parametrize("key", ["alignment={}", "phrases={}", "reordering=2", "tuning={}"])
def test_keys_of_a_phrase_based_system_are_refused_for_networks(tmp_path, key):
    assert "only a phrase-based model has" in complaint(tmp_path, STAR, f"model.{key}")
