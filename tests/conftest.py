"""Strict by default: CPU, 8 virtual devices, no silent promotion, shapes checked at run time."""

import gc
import os
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
# Compiling takes longer than running here: level 0 makes it two to three times faster.
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
)
# jaxlib 0.10.1 logs errors for every program that it loads from the cache, although it loads it
# (jax issue 38445): they would fill the pipes of the processes that tests start.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Commands that tests start must not write to the cache of whoever runs them.
os.environ.setdefault("TTM_JAX_COMPILE_CACHE", "off")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from paths import PROGRAMS, forget_half_written

# What several tests compile is compiled once: also in the processes that they start, and from one
# run of the suite to the next.
if "PYTEST_XDIST_WORKER" not in os.environ:
    forget_half_written()
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(PROGRAMS)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# No test asserts a time, and a loaded machine must not make one fail.
settings.register_profile("ttm_jax", deadline=None)
settings.load_profile("ttm_jax")

# Every annotation of the package is checked when its functions are called.
_hook = install_import_hook("ttm_jax", "beartype.beartype")
_hook.__enter__()


# Every compiled program holds memory maps, and Linux allows a process 65,530 of them by default;
# beyond that, loading one more program ends in a segmentation fault.
_MANY_MAPS = 25_000


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Forget the compiled programs before there are too many of them."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MANY_MAPS:
        jax.clear_caches()
        gc.collect()
