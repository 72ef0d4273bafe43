"""What many tests need: small corpora made on the spot, and experiment files for them."""

import random
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import yaml

# A test says the same thing on every run: examples are drawn from the test's own name, and a busy
# machine is no failure. `pytest --hypothesis-profile=search` looks for new ones instead.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("search", max_examples=1000, deadline=None)
hypothesis.settings.load_profile("same")


@pytest.fixture(autouse=True)
def _same_numbers():
    """Tests draw the same numbers whichever ran before them in their process."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


WORDS = {
    "en": "the a big small house cat dog sees likes green red old new and".split(),
    "de": "die eine große kleine Häuser Katze Hund sieht mag grüne rote alte neue und".split(),
    "fr": "le un grand petit maison chat chien voit aime vert rouge vieux neuf et".split(),
    "es": "el un gran pequeño casa gato perro ve quiere verde rojo viejo nuevo y".split(),
}


def sentence(number: int, language: str) -> str:
    """Sentence `number`, the same in meaning in every language."""
    words, out = WORDS[language], []
    while number or len(out) < 3:
        number, digit = divmod(number, len(words))
        out.append(words[digit])
    return " ".join(out) + "."


def write_lines(path: Path, lines) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


@pytest.fixture
def toy(tmp_path):
    """An experiment file over three corpora that overlap completely; returns its path."""
    languages = ["en", "de", "fr", "es"]
    for language in languages:
        write_lines(tmp_path / f"train.{language}", (sentence(i, language) for i in range(600)))
        for start, split in ((1000, "dev"), (1100, "test")):
            lines = (sentence(i, language) for i in range(start, start + 20))
            write_lines(tmp_path / f"{split}.{language}", lines)
    return write_experiment(
        tmp_path,
        languages=languages,
        corpora=[
            {"pair": f"en-{other}", "train": str(tmp_path / "train.{lang}")}
            for other in languages[1:]
        ],
        dev=str(tmp_path / "dev.{lang}"),
        test=str(tmp_path / "test.{lang}"),
        vocabulary={"size": 400},
    )


def write_experiment(directory: Path, **settings) -> Path:
    """Write toy.yaml with a store beside it."""
    path = directory / "toy.yaml"
    settings.setdefault("store", str(directory / "store"))
    path.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), "utf-8")
    return path
