"""Directories that appear whole or not at all, whatever happens while they are written."""

import os
import signal
from pathlib import Path

import pytest

from accord.errors import AccordError
from accord.export.export_run import check_place, published
from accord.files import clear_leftovers
from accord.inference.backends.manifest import NAME, is_exported


def export_to(directory: Path, words: str, force: bool = False) -> None:
    with published(directory, force) as fresh:
        (fresh / NAME).write_text(words)


def there(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_an_export_takes_its_place_and_another_only_by_force(tmp_path):
    place = tmp_path / "some" / "where" / "model"
    export_to(place, "first")
    (place / "rest").touch()
    with pytest.raises(AccordError, match="already"):
        export_to(place, "second")
    assert (place / NAME).read_text() == "first"
    export_to(place, "third", force=True)
    assert (place / NAME).read_text() == "third"
    assert there(place) == [NAME]
    assert there(place.parent) == ["model"]


def test_permissions_are_those_of_any_directory(tmp_path):
    (tmp_path / "other").mkdir()
    export_to(tmp_path / "model", "mine")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_of_two_exports_at_once_the_second_does_not_replace_the_first(tmp_path):
    place = tmp_path / "model"
    with pytest.raises(AccordError, match="already"), published(place, False) as slow:
        (slow / NAME).write_text("slow")
        export_to(place, "quick")
    assert (place / NAME).read_text() == "quick"
    assert there(tmp_path) == ["model"]


@pytest.mark.parametrize("force", [True, False])
def test_what_came_to_be_there_in_the_meantime_is_not_deleted(tmp_path, force):
    place = tmp_path / "model"
    with pytest.raises(AccordError, match="something else"), published(place, force) as fresh:
        (fresh / NAME).write_text("mine")
        place.mkdir()
        (place / "thesis.txt").write_text("the work of years")
    assert there(place) == ["thesis.txt"]
    assert there(tmp_path) == ["model"]


def test_an_interruption_at_the_worst_moment_keeps_the_old_one(tmp_path, monkeypatch):
    place, rename = tmp_path / "model", Path.rename
    export_to(place, "old")

    def interrupted(self, target):
        if self.name == "fresh":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_to(place, "new", force=True)
    assert (place / NAME).read_text() == "old"
    assert there(tmp_path) == ["model"]


def killed_export(directory: Path, rename: bool = False) -> None:
    """An export in a process of its own that dies as by kill -9: while it writes, or late."""
    child = os.fork()
    if child == 0:
        if rename:
            Path.rename = dying(Path.rename)
        with published(directory, True) as fresh:
            (fresh / NAME).write_text("killed")
            if not rename:
                os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def dying(rename):
    """Dies when the old export is moved aside and the new one has not its name yet."""

    def renamed(self, target):
        if self.name == "fresh":
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)

    return renamed


def test_what_killed_exports_left_is_deleted_by_the_next_one(tmp_path):
    place = tmp_path / "mod[e]l"
    for _ in range(2):
        killed_export(place)
    assert len(there(tmp_path)) == 2
    clear_leftovers(place)
    assert there(tmp_path) == []


def test_an_export_that_a_killed_one_moved_aside_comes_back(tmp_path):
    place = tmp_path / "model"
    export_to(place, "old")
    killed_export(place, rename=True)
    assert not place.exists()
    clear_leftovers(place)
    assert there(tmp_path) == ["model"]
    assert (place / NAME).read_text() == "old"


def test_nothing_else_is_taken_for_a_leftover(tmp_path):
    """An export at work, one to a place of a similar name, and what others call alike."""
    (tmp_path / ".model.12345678").mkdir()
    (tmp_path / ".model.87654321").touch()
    (tmp_path / ".model.anothers").mkdir()
    (tmp_path / ".model.anothers" / ".lock").touch()
    killed_export(tmp_path / "model.int8")
    before = there(tmp_path)
    with published(tmp_path / "model", False) as fresh:
        (fresh / NAME).write_text("mine")
        clear_leftovers(tmp_path / "model")
        assert fresh.is_dir()
    assert there(tmp_path) == sorted([*before, "model"])


def test_a_place_that_cannot_be_looked_at_is_an_error_with_a_remedy(tmp_path):
    long = tmp_path / ("x" * 300)
    for look in (lambda: check_place(long, False), lambda: is_exported(long)):
        with pytest.raises(AccordError, match=r"too long") as error:
            look()
        assert error.value.fix
