"""A store to train phrase-based systems on in a second: numbers, digit by digit."""

from pathlib import Path

from accord.config.load import load
from accord.data.prepare import prepare
from toy_corpus import write_experiment
from toy_training import LANGUAGES, write_text

MODEL = {
    "kind": "phrase-based",
    "alignment": {"iterations": 2},
    "tuning": {"sentences": 6, "evaluations": 3},
}
LINES = 150


def prepared_phrases(directory: Path) -> Path:
    """An experiment file with its store; English has data with German and with French."""
    for language in LANGUAGES:
        write_text(directory / f"train.{language}", (17 * i for i in range(LINES)), language)
        write_text(directory / f"dev.{language}", range(7001, 7009), language)
    corpora = [
        {"pair": f"en-{other}", "train": str(directory / "train.{lang}")} for other in ("de", "fr")
    ]
    path = write_experiment(
        directory,
        languages=list(LANGUAGES),
        corpora=corpora,
        dev=str(directory / "dev.{lang}"),
        overlap="keep",
        vocabulary={"size": 320},
        model=MODEL,
    )
    prepare(load(path))
    return path
