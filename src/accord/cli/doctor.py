"""The command doctor: what is installed, what the machine offers, what is missing for what."""

import json
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from accord import __version__
from accord.machine import commit, cores, free_memory, some_cores

# What each extra is for; which packages it has is said in pyproject.toml alone.
USES = {
    "comet": "accord evaluate --comet",
    "ct2": "accord export --format ctranslate2, and what it writes",
    "export": "accord export, and what it writes",
    "files": "translating .md and .po files",
    "mlflow": "training.loggers: [mlflow]",
    "parquet": "text in Parquet and Arrow files",
    "ray": "accord prepare --engine ray",
    "serve": "accord serve",
    "smt": "model.kind: phrase-based, to train it and to translate by it",
    "tensorboard": "training.loggers: [tensorboard]",
    "wandb": "training.loggers: [wandb]",
}
_MODULES = {"pyyaml": "yaml"}  # packages whose module has another name
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[.*?\])?\s*([^;]*)(?:;.*extra == ['\"]([\w-]+)['\"])?")
_LITTLE_DISK = 1e9


@dataclass(frozen=True)
class Package:
    """One that Accord needs, or that an extra needs."""

    name: str
    wanted: str
    version: str | None
    extra: str | None = None

    @property
    def there(self) -> bool:
        """Whether it is installed, in a version that will do."""
        return self.version is not None and not _too_old(self.version, self.wanted)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print all facts as JSON.")] = False,
) -> None:
    """Say what is installed, and what is missing for what.

    Versions, GPU, threads, memory, disk; which extra each command needs. The exit status is 0
    unless something that every command needs is broken.

    Example: accord doctor --json
    """
    packages = _packages()
    needed = [package for package in packages if package.extra is None]
    problems = [*_unusable(needed), *_no_package(packages)]
    facts = {
        "accord": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "system": platform.platform(),
        **_torch(),
        "cores": cores(),
        "threads": some_cores(),
        "memory_free": free_memory(),
        "disk_free": shutil.disk_usage(Path.cwd()).free,
        "packages": [asdict(package) for package in needed],
        "extras": _extras(packages),
        "problems": problems,
    }
    typer.echo(json.dumps(facts, indent=2) if as_json else "\n".join(_text(facts)))
    if problems:
        raise typer.Exit(1)


def versions() -> str:
    """What `accord --version` prints; PyTorch is loaded only where there may be a GPU."""
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return f"accord {__version__}\nno PyTorch, Python {platform.python_version()}"
    gpus = [] if torch.endswith("+cpu") else _torch()["gpus"]
    on = ", ".join(gpu["name"] for gpu in gpus) or "no GPU"
    return f"accord {__version__}\nPyTorch {torch}, {on}, Python {platform.python_version()}"


# --- Facts.


def _packages() -> list[Package]:
    """What the installed package says it needs; empty in a checkout that was never installed."""
    try:
        required = metadata.requires("accord") or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for line in required:
        name, wanted, extra = _REQUIREMENT.match(line).groups()  # type: ignore[union-attr]
        if name.lower() == "accord" or extra == "dev":
            continue
        try:
            version: str | None = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = None
        found.append(Package(name, wanted.strip(), version, extra))
    return found


def _too_old(version: str, wanted: str) -> bool:
    """Whether a version is below one that is asked for by `>=`."""
    least = re.search(r">=\s*([\d.]+)", wanted)
    return least is not None and _release(version) < _release(least[1])


def _release(version: str) -> tuple[int, ...]:
    plain = re.split(r"[^\d.]", version)[0]
    return tuple(int(part) for part in plain.split(".") if part)


def _extras(packages: list[Package]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted({package.extra for package in packages if package.extra}):
        of = [package for package in packages if package.extra == name]
        found[name] = {
            "for": USES.get(name, ""),
            "installed": all(package.there for package in of),
            "packages": {package.name: package.version for package in of},
        }
    return found


def _torch() -> dict[str, Any]:
    """PyTorch as it says itself; what is wrong with it is a problem, not the end."""
    try:
        import torch
    except Exception:  # noqa: BLE001 (a library that is missing or damaged, in many ways)
        return {"torch": None, "cuda": None, "gpus": []}
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": [{"name": gpu.name, "memory": gpu.total_memory} for gpu in gpus],
    }


# --- Problems.


def _unusable(needed: list[Package]) -> Iterator[str]:
    for package in needed:
        remedy = f"pip install '{package.name}{package.wanted}'"
        if package.version is None:
            yield f"{package.name} is not installed: {remedy}"
        elif not package.there:
            yield f"{package.name} {package.version} is too old: {remedy}"
        else:
            name = package.name.lower()
            try:
                import_module(_MODULES.get(name, name.replace("-", "_")))
            except Exception as error:  # noqa: BLE001 (damaged libraries fail in many ways)
                what = f"{type(error).__name__}: {error}".splitlines()[0]
                yield f"{package.name} cannot be loaded ({what}): {remedy}"


def _no_package(packages: list[Package]) -> Iterator[str]:
    if not packages:
        yield "accord is not installed as a package: pip install . in its checkout"


# --- For people.


def _text(facts: dict[str, Any]) -> Iterator[str]:
    source = f" ({facts['commit']})" if facts["commit"] else ""
    yield f"accord {facts['accord']}{source}, Python {facts['python']}"
    yield facts["system"]
    yield _computing(facts)
    memory = facts["memory_free"]
    free = "" if memory is None else f", {memory / 1e9:,.1f} GB of memory free"
    yield (
        f"{facts['cores']} cores, {facts['threads']} used by default{free}, "
        f"{facts['disk_free'] / 1e9:,.1f} GB of disk free here"
    )
    if facts["disk_free"] < _LITTLE_DISK:
        yield "note: that is little disk for stores and checkpoints"
    yield f"\n{len(facts['packages'])} packages that every command needs:"
    good = not facts["problems"]
    yield "  all there" if good else "".join(f"\n  problem: {x}" for x in facts["problems"])[1:]
    yield "\nextras:"
    for name, extra in facts["extras"].items():
        state = "there  " if extra["installed"] else "missing"
        yield f"  {name:<12} {state}  {extra['for']}"
        if not extra["installed"]:
            yield f"  {'':<12}          pip install 'accord[{name}]'"


def _computing(facts: dict[str, Any]) -> str:
    if facts["torch"] is None:
        return "PyTorch: none that works"
    if not facts["gpus"]:
        driver = Path("/proc/driver/nvidia/version").exists()
        idle = "; there is an NVIDIA driver: install a build of PyTorch for CUDA" if driver else ""
        return f"PyTorch {facts['torch']}, no GPU{idle}"
    names = ", ".join(f"{gpu['name']} ({gpu['memory'] / 1e9:.0f} GB)" for gpu in facts["gpus"])
    return f"PyTorch {facts['torch']}, CUDA {facts['cuda']}: {names}"
