"""The catalogue: complete, consistent, and what the recipes read."""

import re
from pathlib import Path

import pytest

from accord.config.load import load
from accord.config.schema import pair_languages
from accord.errors import AccordError
from accord.fetching.catalogue import DATASETS, dataset

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))


def archives(item):
    return (*item.archives, *item.others)


@pytest.mark.parametrize("item", DATASETS.values(), ids=lambda item: item.name)
def test_every_entry_is_well_formed(item):
    targets = [member.target for member in item.members]
    assert len(targets) == len(set(targets))
    assert all(Path(target).name == target for target in targets)
    assert all({m.target for m in other.members} <= set(targets) for other in item.others)
    names = [part.name for archive in archives(item) for part in archive.parts]
    assert len(names) == len(set(names))
    for archive in archives(item):
        assert archive.packed or (len(archive.parts), len(archive.members)) == (1, 1)
        for part in archive.parts:
            assert part.urls
            assert all(re.match(r"https://\S+$", url) for url in part.urls)
            assert all(url.endswith(part.name) for url in part.urls)
            assert part.size is None or 0 < part.size <= archive.most
            assert part.checksum is None or re.fullmatch(
                r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", part.checksum
            )
    assert item.homepage.startswith("https://")
    assert item.licence


def test_an_unknown_dataset_names_those_there_are():
    with pytest.raises(AccordError, match="no dataset 'europal'") as error:
        dataset("europal")
    assert "europarl, iwslt17, multi30k, un" in error.value.fix


def paths_read(experiment):
    """Every file that a recipe reads, with the languages filled in."""
    for corpus in experiment.corpora:
        for source in corpus.train:
            for language in corpus.languages:
                yield source.path.replace("{lang}", language)
    for held_out in experiment.held_out.values():
        if held_out.path:
            yield from (held_out.path.replace("{lang}", x) for x in experiment.languages)
        for item in held_out.sets:
            for language in pair_languages(item.pair):
                yield item.path.replace("{lang}", language)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_what_recipes_read_is_what_fetch_brings(path):
    for read in paths_read(load(path)):
        if not read.startswith(("demo/", "data/parliament")):  # made, or the user's own
            folder, name, file = Path(read).parts
            assert folder == "data"
            assert file in {member.target for member in dataset(name).members}


@pytest.mark.parametrize("name", DATASETS)
def test_nothing_is_fetched_that_no_recipe_reads(name):
    needed = {Path(read).name for path in RECIPES for read in paths_read(load(path))}
    assert {member.target for member in dataset(name).members} <= needed
