"""Fixtures that run `ttm` and the experiments in this process as from a shell, and models."""

import runpy
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import pytest
from model_folders import make_folder

from ttm_jax.cli.main import COMMANDS, main
from ttm_jax.hosts import shutdown
from ttm_jax.training import sharding


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str


@pytest.fixture
def one_device(monkeypatch):
    """Compiling for one device takes a fraction of the time."""
    mesh = sharding.make_mesh
    monkeypatch.setattr(sharding, "make_mesh", lambda devices=None: mesh(jax.devices()[:1]))


@pytest.fixture
def command(one_device, monkeypatch, capsys):
    """command("mmvp_siglip", "--small") or command("adapt", ...) -> Finished."""
    # Ctrl-C ends a command without Python's farewell, but here it must not end the tests.
    monkeypatch.setattr(shutdown, "leave_at_once", sys.exit)

    def run(name: str, *args: object) -> Finished:
        capsys.readouterr()
        if name in COMMANDS:
            monkeypatch.setattr(sys, "argv", ["ttm", name, *map(str, args)])
            with pytest.raises(SystemExit) as left:
                main()
            shown = capsys.readouterr()
            return Finished(int(left.value.code or 0), shown.out, shown.err)
        monkeypatch.setattr(sys, "argv", [name, *map(str, args)])
        with warnings.catch_warnings():
            # The module may already have been imported by another test.
            warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
            with pytest.raises(SystemExit) as left:
                runpy.run_module(f"experiments.{name}", run_name="__main__")
        shown = capsys.readouterr()
        return Finished(int(left.value.code or 0), shown.out, shown.err)

    return run


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> dict[str, Path]:
    """Folders with random weights, by family."""
    return {
        family: make_folder(tmp_path_factory.mktemp(family), family)
        for family in ("siglip", "clip")
    }


@pytest.fixture(scope="session")
def smolvlm(tmp_path_factory) -> Path:
    """A folder with a SmolVLM that is hardly trained."""
    from ttm_jax.small.vlm import RECIPE, small_vlm

    recipe = replace(
        RECIPE, image_size=16, vision_width=32, vision_depth=1, width=48, depth=2, vocabulary=400,
        scenes=64, steps=2, warmup=1, batch=4,
    )  # fmt: skip
    return small_vlm(tmp_path_factory.mktemp("smolvlm") / "model", recipe)
