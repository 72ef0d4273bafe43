"""Copies what a study needs into the repository: settings, thinned logs, figures, and a README.

    python benchmarks/collect.py RUN... --to benchmarks/results/STUDY [--command "accord train …"]

RUN is a run directory; one without checkpoints will do, such as those in an archive of branches.py.
Machine paths are cut down to their last two parts. What stands outside the marks in an existing
README.md is kept.
"""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from accord.errors import AccordError
from accord.evaluation.records import Average, Evaluation
from accord.files import atomic_write, reading_errors

MOST_LINES = 200
LARGEST_REPORT = 300_000
BEGIN, END = "<!-- collected: begin -->", "<!-- collected: end -->"
_GROUPS = {
    "supervised": "supervised",
    "zero_shot": "zero-shot",
    "zero_shot_via_pivot": "zero-shot via pivot",
    "zero_shot_by_ensemble": "zero-shot by ensemble",
}
_ABSOLUTE = re.compile(r"(?<=[\s>=;'\"])/(?:[\w.+@{}-]+/){2,}[\w.+@{}-]*")
_SKELETON = """# {title}

What was asked, and what came out: to be written.

{collected}
"""


@dataclass(frozen=True)
class Collected:
    """One run: what was found of it."""

    name: str
    experiment: dict[str, Any]
    metrics: tuple[str, ...] = ()
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    tests: dict[str, str] = field(default_factory=dict)
    """Paired tests, as JSON, by the name of the file they go to."""
    environment: dict[str, Any] = field(default_factory=dict)
    report: str | None = None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR")
    parser.add_argument("--command", action="append", default=[], help="how it was made")
    parser.add_argument("--commit", help="where the runs themselves do not say")
    options = parser.parse_args(arguments)
    try:
        runs = [read(path) for path in options.runs]
        collect(runs, options.to, options.command, options.commit)
    except AccordError as error:
        sys.exit(f"collect: {error}")
    print(f"{options.to}: {len(runs)} runs")


def collect(
    runs: Sequence[Collected], to: Path, commands: Sequence[str] = (), commit: str | None = None
) -> None:
    """Write all runs below `to`, and the README."""
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise AccordError(f"two runs are called {twice}", fix="rename one, or collect it elsewhere")
    known = _known_paths(runs)
    for run in runs:
        _write_run(run, to / run.name, known)
    page = to / "README.md"
    made = f"{BEGIN}\n{summary(runs, commands, commit)}{END}"
    with atomic_write(page) as file:
        file.write(_readme(page, to.resolve().name, made))


def _readme(page: Path, title: str, made: str) -> str:
    if not page.is_file():
        return _SKELETON.format(title=title, collected=made)
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise AccordError(
            "the README has no place for what was collected",
            where=str(page),
            fix=f"write {BEGIN} and {END} where it should stand",
        )
    return text[: text.index(BEGIN)] + made + text[text.index(END) + len(END) :]


# --- reading ---------------------------------------------------------------------------------


def read(path: Path) -> Collected:
    """All that a run directory has to say."""
    evaluations, tests = {}, {}
    for file in sorted(path.glob("evaluation/[!.]*/evaluation.json")):
        evaluation = Evaluation.load(file)
        evaluations[evaluation.name] = evaluation
        for test in sorted(file.parent.glob("against-*.json")):
            tests[f"{evaluation.name}.{test.name}"] = _text(test)
    environment, report = path / "environment.json", path / "report.html"
    small = report.is_file() and report.stat().st_size < LARGEST_REPORT
    return Collected(
        path.resolve().name,
        yaml.safe_load(_text(path / "experiment.yaml")),
        _lines(path / "metrics.jsonl"),
        evaluations,
        tests,
        json.loads(_text(environment)) if environment.is_file() else {},
        _text(report) if small else None,
    )


def _text(file: Path) -> str:
    with reading_errors(file):
        return file.read_text(encoding="utf-8")


def _lines(file: Path) -> tuple[str, ...]:
    return tuple(_text(file).splitlines()) if file.is_file() else ()


# --- writing ---------------------------------------------------------------------------------


def _write_run(run: Collected, to: Path, known: Sequence[str]) -> None:
    _write(to / "experiment.yaml", _yaml(stripped(run.experiment)))
    if run.metrics:
        _write(to / "metrics.jsonl", "".join(f"{line}\n" for line in thinned(run.metrics)))
    for name, evaluation in run.evaluations.items():
        text = json.dumps(evaluation.as_dict(), indent=1, ensure_ascii=False)
        _write(to / f"{name}.json", text + "\n")
    for name, text in run.tests.items():
        _write(to / name, text)
    if run.report is not None:
        _write(to / "report.html", _without_paths(run.report, known))


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text)


def _yaml(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100))


def thinned(lines: Sequence[str], most: int = MOST_LINES) -> list[str]:
    """At most so many lines, evenly; the first and the last of each kind stay, as do validations
    as long as they are no more than half."""
    kinds = {number: kind for number, line in enumerate(lines) if (kind := _kind(line))}
    training = [number for number, kind in kinds.items() if kind == "train"]
    others = _even([number for number, kind in kinds.items() if kind != "train"], most // 2)
    kept = {*others, *_even(training, most - len(others))}
    return [lines[number] for number in sorted(kept)]


def _kind(line: str) -> str:
    try:
        return str(json.loads(line)["kind"])
    except (ValueError, LookupError, TypeError):
        return ""  # the last line of a process that was killed while writing


def _even(numbers: Sequence[int], most: int) -> list[int]:
    if len(numbers) <= most:
        return list(numbers)
    step = (len(numbers) - 1) / (most - 1)
    return [numbers[round(i * step)] for i in range(most)]


def stripped(value: Any) -> Any:
    """The same without machine paths, wherever they stand."""
    if isinstance(value, dict):
        return {key: stripped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [stripped(inner) for inner in value]
    return shortened(value) if isinstance(value, str) else value


def shortened(path: str) -> str:
    """`/home/me/data/multi30k/train.{lang}` as `multi30k/train.{lang}`; others as they are."""
    if not path.startswith(("/", "~", "../", "$")):
        return path
    inside = re.sub(r"^(/home/[^/]+|/Users/[^/]+|/root|~[^/]*|\$\w+)/", "", path)
    return "/".join(part for part in inside.split("/")[-2:] if part not in ("", ".."))


def _machine_paths(value: Any) -> Iterator[str]:
    """All paths that `shortened` would cut, also behind the = of an argument."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _machine_paths(inner)
    elif isinstance(value, str):
        path = re.sub(r"^[\w.-]+=", "", value)
        if shortened(path) != path:
            yield path


def _known_paths(runs: Iterable[Collected]) -> list[str]:
    """Of all runs, since a report may speak of several; longer ones first."""
    found = [[run.experiment, run.environment.get("command", [])] for run in runs]
    return sorted(set(_machine_paths(found)), key=len, reverse=True)


def _without_paths(text: str, known: Sequence[str]) -> str:
    for path in known:
        text = text.replace(path, shortened(path))
    # Those of runs that are compared with, but not collected.
    return _ABSOLUTE.sub(lambda match: shortened(match[0]), text)


# --- the README ------------------------------------------------------------------------------


def summary(
    runs: Sequence[Collected], commands: Sequence[str] = (), commit: str | None = None
) -> str:
    """Tables of averages, commands, and where it was run."""
    parts = [*_tables(runs), "## Commands\n", "```", *(commands or _recorded(runs)), "```\n"]
    parts += ["## Where\n", *(f"- {key}: {said}" for key, said in _where(runs, commit)), ""]
    return "\n".join(parts)


def _tables(runs: Sequence[Collected]) -> Iterator[str]:
    """One for every evaluation that some run has: only these can be compared."""
    for name in dict.fromkeys(name for run in runs for name in run.evaluations):
        some = [(run.name, run.evaluations[name]) for run in runs if name in run.evaluations]
        groups = [g for g in _GROUPS if any(g in evaluation.averages for _, evaluation in some)]
        yield f"## {name}\n"
        yield "BLEU, means over directions, with half the width of the 95 % interval.\n"
        yield f"| run | step | {' | '.join(_GROUPS[g] for g in groups)} | off-target, zero-shot |"
        yield f"|---|---:|{'---:|' * (len(groups) + 1)}"
        for run, evaluation in some:
            means = evaluation.averages
            cells = [_mean(means.get(group)) for group in groups]
            zero_shot = means.get("zero_shot")
            astray = zero_shot.off_target if zero_shot else None
            cells.append("–" if astray is None else f"{100 * astray:.1f} %")
            yield f"| {run} | {evaluation.origin.step:,} | {' | '.join(cells)} |"
        yield ""


def _mean(average: Average | None) -> str:
    return "–" if average is None else f"{average.bleu:.2f} ±{average.bleu_confidence:.2f}"


def _recorded(runs: Iterable[Collected]) -> list[str]:
    """The commands that the runs themselves remember."""
    found = []
    for run in runs:
        words = run.environment.get("command") or []
        if words:
            typed = shlex.join([Path(words[0]).name, *words[1:]])
            found.append(_without_paths(typed, _known_paths([run])))
    return list(dict.fromkeys(found)) or ["not recorded"]


def _where(runs: Sequence[Collected], commit: str | None) -> Iterator[tuple[str, str]]:
    evaluations = [found for run in runs for found in run.evaluations.values()]
    commits = [run.environment.get("commit") for run in runs] + [commit]
    yield "commit", _listed(commits)
    trained = [run.environment.get("device") for run in runs]
    yield "hardware, training", _listed(trained)
    devices = [f"{item.origin.device}, {item.origin.precision}" for item in evaluations]
    yield "hardware, evaluation", _listed(devices)
    yield "accord", _listed([item.accord for item in evaluations])
    for key in ("torch", "python"):
        yield key, _listed([run.environment.get(key) for run in runs])
    days = sorted(item.date[:10] for item in evaluations)
    yield "date", _listed([days[0], days[-1]] if days else [])


def _listed(values: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(value for value in values if value)) or "not recorded"


if __name__ == "__main__":
    main()
