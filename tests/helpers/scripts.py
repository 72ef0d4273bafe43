"""The scripts of benchmarks/ as modules; they import each other by name."""

import importlib
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script(name):
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))  # at the end: no name there may hide another
    return importlib.import_module(name)
