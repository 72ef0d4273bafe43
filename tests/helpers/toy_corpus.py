"""Small parallel corpora made on the spot, and experiment files for them."""

from pathlib import Path

import yaml

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


def write_experiment(directory: Path, **settings) -> Path:
    """Write toy.yaml with a store beside it."""
    path = directory / "toy.yaml"
    settings.setdefault("store", str(directory / "store"))
    path.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), "utf-8")
    return path
