"""Mutation testing: small changes to the code, each of which some test should notice.

    python tests/mutants.py [MODULE...] [--sample 15] [--seed 1] [--out mutants.json]

For each module a sample of its mutants is made: another comparison or operator, a number one
larger, a condition the other way round, a statement left out. The tests that belong to the module
run against each one, in a fork of this process with the changed module in the place of the real
one; no file is touched. A mutant that no test notices has survived: either the change makes no
difference (then say so where the score is noted: docs/mutants.md), or a test is missing.
Needs a system that can fork.
"""

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SOURCE = Path("src/accord")
TESTS = {
    "data/dedup.py": ["data/test_overlap.py", "data/test_hashes.py", "data/test_verify.py"],
    "data/verify.py": ["data/test_verify.py"],
    "objectives/agreement/loss.py": [
        "objectives/agreement/test_loss.py",
        "objectives/agreement/test_gradients.py",
        "objectives/agreement/test_objective.py",
    ],
    "inference/beam_step.py": ["inference/test_beam_search.py", "inference/test_search_rows.py"],
    "training/update.py": ["training/test_update.py", "objectives/test_toy_objective.py"],
    "models/checkpoint.py": ["models/test_checkpoint.py"],
    "metrics/bleu.py": ["metrics/test_bleu.py"],
    "objectives/dual/loss.py": ["objectives/dual/test_dual_loss.py"],
    "objectives/denoise.py": ["objectives/test_denoise.py"],
    "objectives/back_translation.py": ["objectives/test_back_translation.py"],
    "objectives/tie.py": ["objectives/test_tie.py"],
    "objectives/distillation/sampling.py": ["objectives/distillation/test_sampling.py"],
    "objectives/distillation/soft_targets.py": ["objectives/distillation/test_soft_targets.py"],
    "objectives/distillation/whole_softmax.py": ["objectives/distillation/test_whole_softmax.py"],
    "phrases/decoder.py": ["phrases/test_tuning.py", "phrases/test_decoder.py"],
    "phrases/language_model.py": ["phrases/test_language_model.py"],
    "phrases/phrase_table.py": ["phrases/test_phrase_table.py", "phrases/test_decoder.py"],
    "phrases/tuning.py": ["phrases/test_tuning.py"],
}
_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change to a module, and what became of it."""

    module: str
    line: int
    change: str
    outcome: str
    seconds: float


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every small change to one node, in words and as what stands in its place."""
    if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp | ast.AugAssign):
        for index, operator in enumerate(getattr(node, "ops", None) or [node.op]):  # type: ignore[union-attr]
            if other := _OTHER.get(type(operator)):
                changed = copy.deepcopy(node)
                if isinstance(changed, ast.Compare):
                    changed.ops[index] = other()  # type: ignore[call-overload]
                else:
                    changed.op = other()  # type: ignore[assignment]
                yield f"{type(operator).__name__} -> {other.__name__}", changed
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield f"{type(node.op).__name__} dropped", node.operand
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        changed = copy.deepcopy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield "condition negated", changed
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield f"{node.value!r} -> {value!r}", ast.Constant(value)
    calls = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if calls or isinstance(node, ast.Raise | ast.AugAssign):
        yield f"{type(node).__name__} dropped", ast.Pass()


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Every node that is code, not types: its parent, the field, the place in a list, the node."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in items:
            if isinstance(child, ast.AST):
                yield tree, field, index, child
                yield from places(child)


def mutants(source: str) -> Iterator[tuple[int, str, ast.Module]]:
    """All mutants of a module: line, change, and the changed module."""
    count = sum(1 for _ in places(ast.parse(source)))
    for number in range(count):
        node = list(places(ast.parse(source)))[number][3]
        for which, (what, _) in enumerate(changes(node)):
            tree = ast.parse(source)
            parent, field, index, here = list(places(tree))[number]
            new = list(changes(here))[which][1]
            new = ast.copy_location(new, here)
            if index is None:
                setattr(parent, field, new)
            else:
                getattr(parent, field)[index] = new
            words = ast.unparse(here).split("\n")[0][:60]
            yield getattr(here, "lineno", 0), f"{what}: {words}", ast.fix_missing_locations(tree)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the changed module in the place of the real one."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self._name, self._path, self._tree = name, path, tree

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def exec_module(self, module: Any) -> None:
        exec(compile(self._tree, str(self._path), "exec"), module.__dict__)


def survives(module: str, tree: ast.Module, limit: float) -> str:
    """What becomes of a mutant: killed, survived, or timeout (an endless loop, most likely)."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1), os.dup2(null, 2)
            name = "accord." + module.removesuffix(".py").replace("/", ".")
            sys.meta_path.insert(0, _Changed(name, SOURCE / module, tree))
            import pytest

            files = [f"tests/{file}" for file in TESTS[module]]
            code = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *files]))
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return "timeout"
        time.sleep(0.02)
    return "survived" if os.waitstatus_to_exitcode(found[1]) == 0 else "killed"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", default=list(TESTS), metavar="MODULE")
    parser.add_argument("--sample", type=int, default=15, help="mutants per module; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds per mutant")
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    options = parser.parse_args()
    if unknown := set(options.modules) - set(TESTS):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(TESTS)}")
    import torch  # once, for all forks  # noqa: F401

    results: list[Mutant] = []
    for module in options.modules:
        source = (SOURCE / module).read_text(encoding="utf-8")
        if survives(module, ast.parse(source), options.limit) != "survived":
            sys.exit(f"{module}: its tests fail without any change")
        found = list(mutants(source))
        if options.sample:
            found = random.Random(f"{options.seed} {module}").sample(
                found, min(options.sample, len(found))
            )
        for line, change, tree in sorted(found, key=lambda item: item[0]):
            begun = time.monotonic()
            outcome = survives(module, tree, options.limit)
            seconds = round(time.monotonic() - begun, 1)
            results.append(Mutant(module, line, change, outcome, seconds))
            print(f"{outcome:9}{module}:{line}  {change}", flush=True)
            options.out.write_text(json.dumps([asdict(one) for one in results], indent=1))
        mine = [one for one in results if one.module == module]
        noticed = sum(one.outcome != "survived" for one in mine)
        print(f"{module}: {noticed} of {len(mine)} noticed", flush=True)


if __name__ == "__main__":
    main()
