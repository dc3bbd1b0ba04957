"""Compiled programs are kept, so that the second start of a command hardly compiles.

They go to `ttm_jax/compiled` in the user's cache folder ($XDG_CACHE_HOME or ~/.cache), to a folder
for this version of jaxlib and this kind of processor: programs for another one could crash. JAX
removes those that have not been used for longest when there is no more room.
"""

import hashlib
import os
import platform
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

VARIABLE = "TTM_JAX_COMPILE_CACHE"
"""Another folder, or an address such as gs://bucket/compiled; "off" keeps nothing."""
LARGEST = 2 * 2**30  # bytes
_LEAST_SECONDS = "0.1"  # what is compiled faster is not worth a file
_SETTINGS = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
# They log an error for every program that they load on a CPU, although it works (jax issue 38445).
_NOISY = ("0.10.0", "0.10.1")


def keep_compiled() -> None:
    """Tell JAX where to keep programs, unless the user has; before JAX is imported."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen == "off" or "jax" in sys.modules or any(name in os.environ for name in _SETTINGS):
        return
    folder = chosen or str(_default())
    settings = {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": _LEAST_SECONDS,
    }
    if "://" not in folder:  # a bucket has rules of its own for what is old
        path = Path(folder).expanduser()
        if not _usable(path):
            return
        settings["JAX_COMPILATION_CACHE_DIR"] = str(path)
        settings["JAX_COMPILATION_CACHE_MAX_SIZE"] = str(LARGEST)
    if metadata.version("jaxlib") in _NOISY:
        settings["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for name, value in settings.items():
        os.environ.setdefault(name, value)


def _default() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    root = Path(cache) if cache else Path.home() / ".cache"
    return root / "ttm_jax" / "compiled" / f"jaxlib-{metadata.version('jaxlib')}-{_processor()}"


def _processor() -> str:
    """A short name for what the processor can do: home folders are shared between machines."""
    features = ""
    with suppress(OSError, StopIteration), open("/proc/cpuinfo", encoding="utf-8") as file:
        features = next(line for line in file if line.startswith(("flags", "Features")))
    short = hashlib.sha256(features.encode()).hexdigest()[:8]
    return f"{platform.system()}-{platform.machine()}-{short}".lower()


def _usable(folder: Path) -> bool:
    """Whether programs can be kept there; removes what a killed process has left half-written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entry in os.scandir(folder):
            # JAX writes the time beside a program when the program is there.
            whole = Path(entry.path.removesuffix("-cache") + "-atime")
            if entry.name.endswith("-cache") and not whole.exists():
                os.unlink(entry.path)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
