"""A run directory of a large model with random weights, to measure speed without training it.

    python benchmarks/random_run.py DIR [--units 512] [--vocabulary 32000] [--ends 1.9]

Words are made up, in three languages that a sentence is the same in; en-de and en-fr have data. The
weights are drawn wide, so that one token is clearly likelier than others, and the vector of the end
of sentence is made so much longer by --ends that translations come out about as long as sources.
What is printed at the end says how long they are.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch
import yaml

from accord.config.load import load, run_directory, store_directory
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.data.vocabulary import EOS
from accord.inference.translator import Translator
from accord.models.build import build_model
from accord.models.checkpoint import Checkpoints
from accord.run_directory import RunDirectory
from accord.training.begin import begin_run
from accord.training.optim import build_optimizer

LANGUAGES = ("en", "de", "fr")
_WORDS, _LINES, _TEST = 40_000, 20_000, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--ends", type=float, default=1.9)
    options = parser.parse_args()
    write_corpus(options.directory)
    run = make_run(options)
    translator = Translator(run, device="cpu")
    sources = RunDirectory(run).held_out.pair("test", "de", "fr")[0][:64]
    found = translator.translate(sources, "fr")
    read = fmean(len(row) for row in translator.vocabulary.encode(sources))
    print(f"{run}: sources have {read:.1f} subwords, translations "
          f"{fmean(len(item.hypotheses[0].ids) for item in found):.1f}")  # fmt: skip


def write_corpus(directory: Path) -> None:
    """Sentences of 4 to 24 made-up words."""
    draw = random.Random(1)
    directory.mkdir(parents=True, exist_ok=True)
    lexicons = {language: lexicon(draw) for language in LANGUAGES}
    for split, lines in (("train", _LINES), ("test", _TEST)):
        sentences = [draw.choices(range(_WORDS), k=draw.randint(4, 24)) for _ in range(lines)]
        for language, words in lexicons.items():
            text = "".join(" ".join(words[i] for i in sentence) + ".\n" for sentence in sentences)
            (directory / f"{split}.{language}").write_text(text, encoding="utf-8")


def lexicon(draw: random.Random) -> Sequence[str]:
    syllables = [a + b for a in "bdfghklmnprstvwz" for b in "aeiouäöü"]
    return ["".join(draw.choices(syllables, k=draw.randint(2, 4))) for _ in range(_WORDS)]


def make_run(options: argparse.Namespace) -> Path:
    directory = options.directory.resolve()
    experiment = {
        "languages": list(LANGUAGES),
        "corpora": [
            {"pair": f"en-{other}", "train": f"{directory}/train.{{lang}}"}
            for other in LANGUAGES[1:]
        ],
        "test": f"{directory}/test.{{lang}}",
        "overlap": "keep",
        "vocabulary": {"size": options.vocabulary},
        "model": {"units": options.units},
        "store": f"{directory}/store",
        "run": f"{directory}/run",
    }
    path = directory / "random.yaml"
    path.write_text(yaml.safe_dump(experiment), encoding="utf-8")
    settings = load(path)
    prepare(settings)
    store, run = Store(store_directory(settings)), RunDirectory(run_directory(settings))
    begin_run(run, settings, store, False)
    model = build_model(settings.model, len(store.vocabulary), settings.training_seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.5)
        model.target_embedding.weight[EOS] *= options.ends
    Checkpoints(run.checkpoints).save(1, model, build_optimizer("adam", model), {"best_step": 1})
    return run.path


if __name__ == "__main__":
    main()
