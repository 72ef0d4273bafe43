"""What many tests need: small corpora made on the spot, and experiment files for them."""

import os
import random
import sys

import hypothesis
import numpy as np
import pytest

from toy_corpus import sentence, write_experiment, write_lines

# A test says the same thing on every machine: libraries take the instructions that all of them
# have, and not the newest ones of the processor. Some virtual machines announce matrix units (AMX)
# that kill the process which uses them. Before torch is loaded; processes of tests inherit it.
for _library, _instructions in {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AUTO,STRICT",  # the same wherever an array begins in memory
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}.items():
    os.environ.setdefault(_library, _instructions)

# A test says the same thing on every run: examples are drawn from the test's own name, and a busy
# machine is no failure. `pytest --hypothesis-profile=search` looks for new ones instead.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("search", max_examples=1000, deadline=None)
hypothesis.settings.load_profile("same")


@pytest.fixture(autouse=True)
def _same_numbers():
    """Tests draw the same numbers whichever ran before them in their process."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture
def toy(tmp_path):
    """An experiment file over three corpora that overlap completely; returns its path."""
    languages = ["en", "de", "fr", "es"]
    for language in languages:
        write_lines(tmp_path / f"train.{language}", (sentence(i, language) for i in range(600)))
        for start, split in ((1000, "dev"), (1100, "test")):
            lines = (sentence(i, language) for i in range(start, start + 20))
            write_lines(tmp_path / f"{split}.{language}", lines)
    return write_experiment(
        tmp_path,
        languages=languages,
        corpora=[
            {"pair": f"en-{other}", "train": str(tmp_path / "train.{lang}")}
            for other in languages[1:]
        ],
        dev=str(tmp_path / "dev.{lang}"),
        test=str(tmp_path / "test.{lang}"),
        vocabulary={"size": 400},
    )
