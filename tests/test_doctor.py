"""`accord doctor` and `accord --version`: what is installed, and what is missing for what."""

import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from accord import __version__
from accord.cli import app, doctor

ROOT = Path(__file__).parents[1]


@pytest.fixture
def installed(monkeypatch):
    """Pretend that these are the requirements, and these versions are there."""

    def pretend(requires, **versions):
        def version(name):
            if name not in versions:
                raise metadata.PackageNotFoundError(name)
            return versions[name]

        made = SimpleNamespace(
            requires=lambda name: requires,
            version=version,
            PackageNotFoundError=metadata.PackageNotFoundError,
        )
        monkeypatch.setattr(doctor, "metadata", made)

    return pretend


def call(*arguments, code=0):
    run = CliRunner().invoke(app, ["doctor", *arguments])
    assert run.exit_code == code, run.output
    return run.output


def test_here_everything_that_is_needed_is_there():
    facts = json.loads(call("--json"))
    assert facts["accord"] == __version__
    assert facts["torch"] == metadata.version("torch")
    assert facts["problems"] == []
    assert {"numpy", "torch", "typer"} <= {package["name"] for package in facts["packages"]}
    assert all(package["version"] for package in facts["packages"])
    assert facts["cores"] >= facts["threads"] >= 1
    assert facts["disk_free"] > 0


def test_every_extra_is_listed_with_what_it_is_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(doctor.USES) == set(project["optional-dependencies"]) - {"dev"}


def test_missing_extras_are_no_fault_and_name_their_command(installed):
    installed(
        [
            "numpy>=2.1",
            "fastapi>=0.115; extra == 'serve'",
            "uvicorn<1,>=0.30; extra == 'serve'",
            'onnx>=1.17; extra == "export"',
            "pytest; extra == 'dev'",
        ],
        numpy="2.4.6",
        fastapi="0.162.4",
        onnx="1.23.2",
    )
    text = call()
    assert "all there" in text
    assert "serve        missing  accord serve" in text
    assert "pip install 'accord[serve]'" in text
    assert "export       there" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    extras = json.loads(call("--json"))["extras"]
    assert list(extras) == ["export", "serve"]
    assert extras["serve"]["packages"] == {"fastapi": "0.162.4", "uvicorn": None}


@pytest.mark.parametrize(
    ("requirement", "versions", "said"),
    [
        ("numpy>=2.1", {}, "numpy is not installed: pip install 'numpy>=2.1'"),
        ("numpy>=2.10", {"numpy": "2.9.1+cpu"}, "numpy 2.9.1+cpu is too old"),
        ("no-such-module", {"no-such-module": "1"}, "no-such-module cannot be loaded"),
    ],
)
def test_what_every_command_needs_and_is_broken_is_a_fault(installed, requirement, versions, said):
    installed([requirement], **versions)
    assert f"problem: {said}" in call(code=1)
    (problem,) = json.loads(call("--json", code=1))["problems"]
    assert problem.startswith(said)


def test_a_checkout_that_was_never_installed_says_so(monkeypatch):
    def none(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", none)
    assert "pip install ." in call(code=1)


def test_the_version_names_pytorch_and_the_gpu(installed, monkeypatch):
    shown = CliRunner().invoke(app, ["--version"]).output.splitlines()
    assert shown[0] == f"accord {__version__}"
    assert shown[1].startswith(f"PyTorch {metadata.version('torch')}, ")
    installed([], torch="2.13.0")
    monkeypatch.setattr(doctor, "_torch", lambda: {"gpus": [{"name": "NVIDIA H200"}]})
    assert "PyTorch 2.13.0, NVIDIA H200, Python" in doctor.versions()
    installed([], torch="2.13.0+cpu")
    assert "no GPU" in doctor.versions()
    installed([])
    assert "no PyTorch" in doctor.versions()


def test_serving_without_its_extra_says_what_to_install():
    """As in an installation without extras: their packages are not there, nor what these bring."""
    code = (
        "import sys\n"
        "for name in ('fastapi', 'starlette', 'uvicorn'): sys.modules[name] = None\n"
        "from accord.cli import main\n"
        "sys.argv = ['accord', 'serve', 'run']\n"
        "main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert "pip install 'accord[serve]'" in run.stderr
