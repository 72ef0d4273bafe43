"""Datasets of the Hugging Face hub by name: the Parquet files that it keeps of each of them.

Named `hf:OWNER/NAME`, or `hf:OWNER/NAME:CONFIG` where there are several configurations. The hub is
asked for the list only when somebody fetches; the files are then read like any others.
"""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from accord.errors import AccordError
from accord.fetching.catalogue import Archive, Dataset, Member, Part
from accord.fetching.download import EncryptedRedirects

PREFIX = "hf:"
_SERVER = "https://datasets-server.huggingface.co/parquet"
_PAGES = "https://huggingface.co/datasets"
_TIMEOUT = 60.0
_MOST = 50_000_000  # bytes of a list
_NAME = re.compile(r"hf:((?:[\w.-]+/)?[\w.-]+)(?::([\w.+-]+))?")


def hub_dataset(name: str) -> Dataset:
    """What there is to fetch of a dataset of the hub."""
    found = _NAME.fullmatch(name)
    if not found:
        raise AccordError(
            f"{name!r} names no dataset of the hub",
            fix="write hf:OWNER/NAME, or hf:OWNER/NAME:CONFIG",
        )
    repository, config = found[1], found[2]
    answer = _asked(f"{_SERVER}?{urllib.parse.urlencode({'dataset': repository})}", name)
    files = _files_of(answer, repository, config)
    splits: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for file in files:
        splits[str(file["split"])].append(file)
    archives = []
    for split, pieces in sorted(splits.items()):
        pieces.sort(key=lambda file: str(file["filename"]))
        for number, file in enumerate(pieces):
            target = f"{split}-{number:05d}-of-{len(pieces):05d}.parquet"
            size = int(file["size"])
            part = Part(target, (str(file["url"]),), size)
            archives.append(Archive((part,), (Member(target, (target,)),), size))
    total = sum(int(file["size"]) for file in files)
    return Dataset(
        name=repository.split("/")[-1] + (f".{config}" if config else ""),
        title=f"{repository} of the Hugging Face hub{f', {config}' if config else ''}",
        homepage=f"{_PAGES}/{repository}",
        licence="as its page says: read it there",
        ask=True,
        size=f"{total / 1e6:,.1f} MB in {len(files)} files",
        archives=tuple(archives),
        argument=name,
    )


def _asked(url: str, name: str) -> Any:
    opener = urllib.request.build_opener(EncryptedRedirects)
    try:
        with opener.open(url, timeout=_TIMEOUT) as answer:
            return json.loads(answer.read(_MOST))
    except urllib.error.HTTPError as error:
        hidden = error.code in (401, 403, 404)
        raise AccordError(
            f"the hub has no list of Parquet files for it (HTTP {error.code})",
            where=name,
            fix="check the name; what needs a login must be downloaded by hand (`huggingface-cli "
            "download`), and is then read from the disk"
            if hidden
            else "try again later",
        ) from None
    except (OSError, ValueError) as error:
        raise AccordError(
            f"the hub cannot be asked: {error}",
            where=name,
            fix="check the network; files that you have are read from the disk: accord init DIR",
        ) from None


def _files_of(answer: Any, repository: str, config: str | None) -> list[Mapping[str, Any]]:
    """The files of the one configuration that is meant, if the list of them is whole."""
    where = f"{PREFIX}{repository}"
    try:
        configs = sorted({str(file["config"]) for file in answer["parquet_files"]})
        chosen = config or (configs[0] if len(configs) == 1 else None)
        files = [file for file in answer["parquet_files"] if file["config"] == chosen]
        incomplete = bool(answer.get("partial") or answer.get("pending") or answer.get("failed"))
        for file in files:
            _ = str(file["url"]), str(file["split"]), str(file["filename"]), int(file["size"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AccordError(
            f"the hub's answer is not a list of Parquet files: {error!r}", where=where
        ) from None
    if not files:
        listed = ", ".join(f"{where}:{name}" for name in configs[:50]) or "none"
        raise AccordError(
            f"there is no configuration {config!r}"
            if config
            else "there are several to choose from",
            where=where,
            fix=f"name one of them: {listed}",
        )
    if incomplete:
        raise AccordError(
            "the hub has Parquet files of a part of it only",
            where=where,
            fix="download the dataset itself (`huggingface-cli download --repo-type dataset`)",
        )
    return files
