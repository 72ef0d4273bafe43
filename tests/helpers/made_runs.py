"""Run directories made on the spot: everything that a report reads, and no model."""

import json
import zlib
from dataclasses import replace
from types import SimpleNamespace

from accord.config.load import dump
from accord.config.schema import Experiment
from accord.data.store import HeldOutSets
from accord.evaluation.folder import evaluation_directory, write
from accord.evaluation.matrix import evaluate
from accord.evaluation.records import FORMAT, Evaluated, Origin
from accord.evaluation.uses import note, uses_of
from accord.files import sealed
from accord.inference.results import SearchSettings

LINES = 40


class NumberedWords:
    """Translates `de4 de9` into `fr4 fr9`, and loses the last word of some zero-shot sentences."""

    needs_source = False
    directions = None
    has_likelihood = True
    reads_search_settings = True

    def __init__(self, graph, lost):
        self.graph = graph
        self.lost = lost

    def translate(self, texts, to, *, source=None, via=None, settings=None):
        for step in [*(via or ()), to]:
            texts = [self._one(text, step) for text in texts]
        return [SimpleNamespace(text=text) for text in texts]

    def translate_together(self, sources, to, *, languages, weights, settings):
        return self.translate(sources[-1], to)

    def _one(self, text, to):
        words = text.split()
        rate = self.lost / 20 if self.graph.is_supervised(words[0][:2], to) else self.lost
        if zlib.crc32(f"{text} {to}".encode()) % 1000 < 1000 * rate:
            words = words[:-2]
        return " ".join(to + word[2:] for word in words)

    def cross_entropy(self, sources, references, to, source=None):
        known = [self.graph.is_supervised(source[:2], to) for source in sources]
        return [(4.0 if seen else 12.0, 4) for seen in known]


def experiment(languages=("en", "de", "fr"), name="toy", objective=None, model=None):
    """A star: all languages tied to the first."""
    first, *others = languages
    corpora = [{"pair": f"{first}-{x}", "train": [{"path": f"train.{x}.{{lang}}"}]} for x in others]
    return Experiment(
        name=name,
        languages=tuple(languages),
        corpora=tuple(corpora),
        dev="dev.{lang}",
        test="test.{lang}",
        objective=objective or {},
        model=model or {},
    )


def make_run(
    path,
    *,
    languages=("en", "de", "fr"),
    lost=0.5,
    pivot=True,
    ensemble=None,
    off_target=0.02,
    validate_all=True,
    name="test-beam4",
    evaluated=True,
    split="test",
    limit=None,
    lines=None,
    seed=0,
    objective=None,
    pairs=4040,
    settings=None,
    directions=None,
    likelihood=True,
    reads_search_settings=True,
    written_as=FORMAT,
    change=lambda lines: lines,
):
    """Write a run directory; `lost` is the share of zero-shot sentences that lose words.

    It has a model for all directions, or for some only, and gives likelihoods or none. What reads
    no search settings is of step 0; `written_as` format 2, it had some all the same.
    `change` may alter the texts of the evaluation after scoring; `settings` are of the search.
    """
    search, settings = settings, experiment(languages, objective=objective)
    path.mkdir(parents=True, exist_ok=True)
    (path / "experiment.yaml").write_text(dump(settings), "utf-8")
    (path / "manifest.json").write_text(json.dumps(manifest(languages, pairs)), "utf-8")
    (path / "environment.json").write_text(
        json.dumps({"accord": "1.0", "command": ["accord", "train"], "cudnn": None}), "utf-8"
    )
    write_metrics(path / "metrics.jsonl", settings.graph, validate_all)
    if not evaluated:
        return path
    held_out = write_held_out(path / "held_out", languages, seed, split)
    step = 400 if reads_search_settings else 0
    origin = Origin(path.name, "best", step, fingerprint(pairs), "cpu", "fp32")
    translator = NumberedWords(settings.graph, lost)
    translator.needs_source = directions is not None
    translator.directions, translator.has_likelihood = directions, likelihood
    translator.reads_search_settings = reads_search_settings or written_as < 3
    found = evaluate(
        translator,
        held_out,
        origin,
        split=split,
        pivot=pivot,
        ensemble=ensemble,
        agreement=len(languages) < 6,
        limit=limit,
        lines=lines,
        settings=search or SearchSettings(),
    )
    found = with_off_target(found, off_target)
    named = replace(found.evaluation, name=name, format=written_as)
    found = Evaluated(named, change(found.lines), found.statistics)
    note(path, uses_of(found))
    write(found, evaluation_directory(path, name))
    return path


def with_off_target(found, rate):
    """Language identification cannot know made-up words."""
    evaluation = found.evaluation
    rows = tuple(replace(row, off_target=rate) for row in evaluation.directions)
    return replace(found, evaluation=replace(evaluation, directions=rows))


def write_held_out(directory, languages, seed, split="test"):
    folder = directory / split
    folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        lines = [
            " ".join(f"{language}{(line * 7 + place * 5 + seed) % 97}" for place in range(7))
            for line in range(LINES)
        ]
        (folder / f"all.{language}.txt").write_text("".join(f"{x}\n" for x in lines), "utf-8")
    return HeldOutSets({split: [{"name": "all", "languages": list(languages)}]}, directory)


def write_metrics(path, graph, validate_all):
    lines = []
    for step in (100, 200, 300, 400):
        lines.append({"kind": "train", "step": step, "nll": 600 / step})
        directions = {
            str(direction): {
                "kind": "supervised" if graph.is_supervised(*direction) else "zero-shot",
                "cross_entropy": (500 if graph.is_supervised(*direction) else 700) / step,
                "bleu": step / 10,
            }
            for direction in (graph.directions if validate_all else graph.supervised_directions)
        }
        lines.append({"kind": "validation", "step": step, "directions": directions})
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    path.write_text(text + '{"kind": "trai', "utf-8")  # cut off in the middle, as by a kill


def fingerprint(pairs):
    return f"0123456789ab{pairs % 10_000:04d}" if pairs != 4040 else "0123456789abcdef"


def manifest(languages, pairs=4040):
    first, *others = languages
    shared = [
        {"pivot": first, "first": f"{first}-{a}", "second": f"{first}-{b}", "zero_shot": True}
        for i, a in enumerate(others)
        for b in others[i + 1 :]
    ]
    steps = [
        {"step": "read", "dropped": 0, "left": 6000},
        {"step": "empty", "dropped": 0, "left": 6000},
        {"step": "overlap", "dropped": 1960, "left": 4040},
    ]
    return sealed(
        {
            "format": 1,
            "fingerprint": fingerprint(pairs),
            "settings": {"overlap": {"mode": "disjoint"}},
            "corpora": [
                {
                    "pair": f"{first}-{x}",
                    "read": 6000,
                    "steps": steps,
                    "lines": pairs,
                    "tokens": {first: 20_000, x: 30_000},
                }
                for x in others
            ],
            "held_out": {"test": [{"name": "all", "languages": list(languages), "lines": LINES}]},
            "overlap": {
                "before": [item | {"strings": 2964} for item in shared],
                "after": [item | {"strings": 0} for item in shared],
            },
        }
    )
