"""Directories that appear whole or not at all, whatever happens while they are written."""

from pathlib import Path

import pytest

from accord.errors import AccordError
from accord.exported.manifest import NAME, is_exported
from accord.exporting.directory import check_place, published


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


def test_what_a_killed_export_left_is_in_nobodys_way(tmp_path, monkeypatch):
    """A container gives the next process the same number as the one that was killed."""
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt), published(tmp_path / "model", False):
        raise KeyboardInterrupt
    assert len(there(tmp_path)) == 1
    export_to(tmp_path / "model", "mine")
    assert is_exported(tmp_path / "model")


def test_a_place_that_cannot_be_looked_at_is_an_error_with_a_remedy(tmp_path):
    long = tmp_path / ("x" * 300)
    for look in (lambda: check_place(long, False), lambda: is_exported(long)):
        with pytest.raises(AccordError, match=r"too long") as error:
            look()
        assert error.value.fix
