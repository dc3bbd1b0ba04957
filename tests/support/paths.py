"""Paths of the tests and their files."""

import hashlib
import os
import zlib
from importlib import metadata
from pathlib import Path

TESTS = Path(__file__).parents[1]


def _programs() -> Path:
    """Where programs that tests compile are kept: for all clones, this jaxlib and processor."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        features = ""
    processor = hashlib.sha256(features.encode()).hexdigest()[:8]
    return cache / "ttm_jax" / "tests" / f"jaxlib-{metadata.version('jaxlib')}-{processor}"


PROGRAMS = Path(os.environ.get("TTM_JAX_TEST_PROGRAMS") or _programs())


def forget_half_written() -> None:
    """Remove programs that a killed process has not written to the end: JAX keeps them for ever."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    for path in PROGRAMS.glob("*-cache"):
        content = path.read_bytes()
        if content[:1] == b"\x78" or not content:  # zlib; other compressions check themselves
            try:
                zlib.decompress(content)
            except zlib.error:
                path.unlink(missing_ok=True)
