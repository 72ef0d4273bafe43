"""Random damage to every file of a store, a run, an evaluation and an export.

`make faults` tries 2,000 times and prints the table; without it, as often as fits into 20 seconds.
"""

import random

import pytest

from fault_cases import STEPS, Place, Restored, Table, attempted, damage, leftovers, limits
from toy_training import prepared

# They end by themselves, and a busy machine is no failure.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Everything that can be damaged, in a folder of its own."""
    base = tmp_path_factory.mktemp("faults")
    made = Place(prepared(base), base / "made")
    made.root.mkdir()
    made.make()
    return made


def test_the_commands_give_the_same_twice(place, tmp_path):
    """Else the table would mean nothing."""
    restore = Restored([place.root, place.toy.parent], tmp_path / "kept")
    for command in {c for some in readers(place).values() for c in some}:
        first = command()
        restore()
        assert command() == first
        restore()
    assert (place.run / "checkpoints" / f"step-{STEPS:08d}").is_dir()


def readers(place):
    """The commands that read each part."""
    run = (
        place.translates,
        place.translates_restricted,
        place.evaluates,
        place.compares,
        place.reports,
        place.averages,
        place.trains_on,
        place.exports,
    )
    return {
        "run": run,
        "store": (place.prepares, place.trains_anew, place.trains_on),
        "evaluation": (place.reports, place.compares),
        "export": (place.translates_exported,),
    }


def part_of(place, part):
    return {
        "run": place.run,
        "store": place.store,
        "evaluation": place.run / "evaluation",
        "export": place.export,
    }[part]


def test_no_damage_goes_unnoticed(place, tmp_path):
    restore = Restored([place.root, place.toy.parent], tmp_path / "kept")
    choose, table, going = random.Random(18), Table(), limits("ACCORD_FAULTS", 20)
    expected = {}
    for commands in readers(place).values():
        for command in commands:
            if command not in expected:
                expected[command] = command()
                restore()
    done = 0
    while going(done):
        part, commands = list(readers(place).items())[done % 4]
        file = choose.choice(sorted(p for p in part_of(place, part).rglob("*") if p.is_file()))
        kind, command = damage(file, choose), choose.choice(commands)
        outcome, more = attempted(command, expected[command])
        story = f"{kind} of {file.relative_to(place.root.parent)}, {command.__name__}: {more}"
        table.add(part, outcome, story)
        if left := leftovers(place.root) | leftovers(place.store):
            table.add(part, "leftovers", f"{story}: {left}")
        restore()
        done += 1
    print(f"\n{table.text()}")
    assert not table.stories, "\n".join(table.stories[:20])
