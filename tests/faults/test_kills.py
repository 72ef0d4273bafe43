"""kill -9 at any step of writing, again and again: in the end the result is the same as ever.

`make faults` kills 200 times and prints the table; without it, as often as fits into 20 seconds.
"""

import random
import signal
import time

import pytest

from fault_cases import Place, Restored, Table, attempted, leftovers, limits
from toy_training import Fault, prepared, run_fork

# They end by themselves, and a busy machine is no failure.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    base = tmp_path_factory.mktemp("kills")
    made = Place(prepared(base), base / "made")
    made.root.mkdir()
    made.make()
    return made


def cases(place):
    """A command to kill, how many steps of writing it has, and what must come of it in the end."""
    return {
        "train": ([*place.training(place.run, 12), "--accept-changes"], 60, place.trains_on),
        "prepare": (["prepare", str(place.toy), "--workers", "1", "-q"], 200, place.prepares),
        "evaluate": ([*place.evaluating(place.run), "--limit", "2"], 80, place.evaluates),
        "export": (exporting(place), 40, place.exports),
        "average": (["average", str(place.run), "--last", "2"], 14, place.averages),
    }


def exporting(place):
    out = place.root / "out" / "export"
    return ["export", str(place.run), "--output", str(out), "--no-check", "-q"]


def test_killed_at_any_step_of_writing(place, tmp_path):
    restore = Restored([place.root, place.toy.parent], tmp_path / "kept")
    choose, table, going = random.Random(9), Table(), limits("ACCORD_KILLS", 20)
    expected = {}
    for name, (_, _, finish) in cases(place).items():
        expected[name] = finish()
        restore()
    deaths, output = 0, tmp_path / "output"
    while going(deaths):
        name, (command, steps, finish) = choose.choice(list(cases(place).items()))
        if name == "prepare":  # there is something to be built
            (place.store / "manifest.json").unlink()
        killed = []
        for _ in range(choose.randint(1, 5)):
            at = choose.randint(1, steps)
            output.unlink(missing_ok=True)
            code = run_fork(command, output, Fault(at=at, events="disk+delete"))
            if code != -signal.SIGKILL:  # it came to its end before
                said = output.read_text() if output.exists() else ""
                if code not in (0, 1) or "Traceback" in said:
                    table.add(name, "traceback", f"{name}, exit {code}: {said}")
                break
            killed.append(at)
        deaths += len(killed)
        time.sleep(2.1)  # what was made in the last two seconds may be of a living process
        outcome, more = attempted(finish, expected[name])
        for _ in killed:
            table.add(name, outcome, f"{name}, killed at {killed}: {more}")
        if left := leftovers(place.root) | leftovers(place.store):
            table.add(name, "leftovers", f"{name}, killed at {killed}: {left}")
        restore()
    print(f"\n{table.text()}")
    assert not table.stories, "\n".join(table.stories[:20])
