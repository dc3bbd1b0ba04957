"""Checksums as the publishers give them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Checksum:
    """`git` is the object id of a blob, which is what git servers say of small files."""

    algorithm: Literal["sha256", "md5", "git"]
    value: str

    def matches(self, path: Path) -> bool:
        return file_digest(path, self.algorithm) == self.value

    def __str__(self) -> str:
        return f"{self.algorithm} {self.value}"


def file_digest(path: Path, algorithm: Literal["sha256", "md5", "git"] = "sha256") -> str:
    digest = hashlib.new(
        "sha1" if algorithm == "git" else algorithm, usedforsecurity=algorithm == "sha256"
    )
    if algorithm == "git":
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
