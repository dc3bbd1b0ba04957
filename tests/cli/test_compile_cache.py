"""Where compiled programs are kept, who decides, and what a killed process leaves there."""

import os
import sys

import pytest

from ttm_jax.cli import compile_cache


@pytest.fixture
def start(monkeypatch, tmp_path):
    """keep_compiled() in an environment like that of a new process -> JAX's variables."""

    def run(**variables: str) -> dict[str, str]:
        for name in [name for name in os.environ if name.startswith("JAX_")]:
            monkeypatch.delenv(name)
        monkeypatch.delenv(compile_cache.VARIABLE, raising=False)
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delitem(sys.modules, "jax", raising=False)
        before = dict(os.environ)
        compile_cache.keep_compiled()
        found = {n: v for n, v in os.environ.items() if n.startswith("JAX_") and n not in before}
        for name in found:
            monkeypatch.delenv(name)
        return found

    return run


def test_programs_go_to_a_folder_for_this_jaxlib_and_processor(start, tmp_path):
    found = start()
    folder = found["JAX_COMPILATION_CACHE_DIR"]
    assert folder.startswith(str(tmp_path / "ttm_jax" / "compiled" / "jaxlib-"))
    assert os.path.isdir(folder)
    assert found["JAX_COMPILATION_CACHE_MAX_SIZE"] == str(compile_cache.LARGEST)


def test_it_can_be_switched_off_or_moved(start, tmp_path):
    assert start(TTM_JAX_COMPILE_CACHE="off") == {}
    place = str(tmp_path / "elsewhere")
    assert start(TTM_JAX_COMPILE_CACHE=place)["JAX_COMPILATION_CACHE_DIR"] == place
    bucket = start(TTM_JAX_COMPILE_CACHE="gs://bucket/compiled")
    assert bucket["JAX_COMPILATION_CACHE_DIR"] == "gs://bucket/compiled"
    assert "JAX_COMPILATION_CACHE_MAX_SIZE" not in bucket


@pytest.mark.parametrize("name", ["JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"])
def test_what_the_user_told_jax_counts(start, name):
    assert start(**{name: "false"}) == {}


def test_a_folder_that_cannot_be_written_is_left_alone(start, tmp_path):
    (tmp_path / "file").write_text("")
    assert start(TTM_JAX_COMPILE_CACHE=str(tmp_path / "file" / "below")) == {}


def test_half_written_programs_are_removed(start, tmp_path):
    for name in ("whole-cache", "whole-atime", "half-cache"):
        (tmp_path / name).write_bytes(b"x")
    start(TTM_JAX_COMPILE_CACHE=str(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["whole-atime", "whole-cache"]
