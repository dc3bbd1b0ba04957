"""`manifest.json` in the folder of a source: which files lie there, their sizes and SHA-256.

{"format": 1,
 "benchmarks": {"mmvp_vlm": {"groups": 135, "published": 135}},
 "files": {"Questions.csv": {"bytes": 9901, "sha256": "...", "origin": "https://..."}, ...}}
"""

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ttm_jax.data.download.addresses import safe_path
from ttm_jax.data.download.checksum import file_digest
from ttm_jax.errors import InputError
from ttm_jax.files import file_problem, read_json, write_json

NAME = "manifest.json"
_FORMAT = 1
_THREADS = 4
_SHA256 = re.compile("[0-9a-f]{64}")


def record(
    folder: Path,
    benchmark: str,
    files: Iterable[Path],
    origins: Mapping[Path, str],
    groups: int,
    published: int,
) -> None:
    """Record a benchmark and its files. `origins` says where the files that just arrived are from.

    A file that is recorded already keeps its first checksum, so that `find_changes` sees a change.
    """
    manifest = read_manifest(folder) or {"format": _FORMAT, "benchmarks": {}, "files": {}}
    noted = manifest["files"]
    new = [path for path in files if path in origins or _name(folder, path) not in noted]
    with ThreadPoolExecutor(_THREADS) as pool:
        for path, digest in zip(new, pool.map(file_digest, new), strict=True):
            noted[_name(folder, path)] = {
                "bytes": path.stat().st_size,
                "sha256": digest,
                "origin": origins.get(path, "found here"),
            }
    manifest["files"] = dict(sorted(noted.items()))
    manifest["benchmarks"][benchmark] = {"groups": groups, "published": published}
    write_json(folder / NAME, manifest)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """None if there is none."""
    path = folder / NAME
    if not path.exists():
        return None
    manifest = read_json(path)
    if not _is_manifest(manifest):
        raise InputError(f"{path} is not a manifest that this version reads; delete it")
    return manifest


def is_recorded(folder: Path, benchmark: str) -> bool:
    manifest = read_manifest(folder)
    return manifest is not None and benchmark in manifest["benchmarks"]


def find_changes(folder: Path) -> list[str]:
    """What is no longer as it was recorded, one line each."""
    manifest = read_manifest(folder)
    if manifest is None:
        return [f"{folder / NAME} does not exist: these files were never checked"]

    def look(item: tuple[str, dict[str, Any]]) -> str | None:
        name, noted = item
        path = folder / name
        problem = file_problem(path)
        if problem == "does not exist":
            return f"{path} is gone"
        if problem is not None and (problem != "is empty" or noted["bytes"]):
            return f"{path} {problem}"
        if path.stat().st_size != noted["bytes"]:
            return f"{path} has {path.stat().st_size} bytes, it had {noted['bytes']}"
        if file_digest(path) != noted["sha256"]:
            return f"{path} has changed: its SHA-256 is no longer {noted['sha256']}"
        return None

    with ThreadPoolExecutor(_THREADS) as pool:
        return [line for line in pool.map(look, manifest["files"].items()) if line is not None]


def _is_manifest(content: Any) -> bool:
    """Every field that is used, down to its type: the file may have been edited or cut."""
    return (
        isinstance(content, dict)
        and type(content.get("format")) is int
        and content["format"] == _FORMAT
        and isinstance(content.get("benchmarks"), dict)
        and all(map(_is_benchmark, content["benchmarks"].values()))
        and isinstance(content.get("files"), dict)
        and all(_is_file(name, entry) for name, entry in content["files"].items())
    )


def _is_benchmark(entry: Any) -> bool:
    counts = ("groups", "published")
    return isinstance(entry, dict) and all(type(entry.get(key)) is int for key in counts)


def _is_file(name: str, entry: Any) -> bool:
    return (
        safe_path(name) is not None
        and isinstance(entry, dict)
        and type(entry.get("bytes")) is int
        and isinstance(entry.get("sha256"), str)
        and _SHA256.fullmatch(entry["sha256"]) is not None
        and isinstance(entry.get("origin"), str)
    )


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
