"""docs/extend.md followed to the letter: its objective trains, and the files it names exist."""

import re
from pathlib import Path

import pytest

from accord.training.trainer import train
from toy_training import experiment, metrics, prepared, weights

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/extend.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_objective_of_the_page_trains_and_is_logged(tmp_path_factory, tmp_path):
    toy, names = prepared(tmp_path_factory.getbasetemp()), {"__name__": "shown"}
    for block in BLOCKS:
        exec(compile(block, "docs/extend.md", "exec"), names)
    train(experiment(toy, tmp_path / "basic", training__steps=10))
    train(experiment(toy, tmp_path / "mine", training__steps=10), build=names["mine"])
    plain, small = (
        weights(tmp_path / run, 10)["target_embedding.weight"].square().sum()
        for run in ("basic", "mine")
    )
    assert small < 0.9 * plain
    assert metrics(tmp_path / "mine", "train")[-1]["small_table"] > 0


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE))))
def test_files_that_the_page_names_are_there(path):
    if not path.isupper() and "NAME" not in path:
        assert (ROOT / path).is_file() or (ROOT / "src/accord" / path).is_file()


def test_the_places_that_name_things_are_where_the_page_says():
    for name, file in re.findall(r"`(\w+)` in `((?:\w+/)+\w+\.py)`", PAGE):
        assert re.search(rf"\b{name}\b", (ROOT / "src/accord" / file).read_text()), (name, file)
