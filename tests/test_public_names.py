"""`import ttm_jax` is light, and every public name leads to what it says."""

import subprocess
import sys

import pytest

import ttm_jax


@pytest.mark.parametrize("name", ttm_jax.__all__)
def test_every_public_name_is_there(name):
    assert getattr(ttm_jax, name).__name__ == name


def test_version_and_unknown_names():
    assert ttm_jax.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ttm_jax.nothing


def test_the_import_is_light():
    program = "import sys, ttm_jax; print([m for m in ('jax', 'scipy', 'PIL') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
