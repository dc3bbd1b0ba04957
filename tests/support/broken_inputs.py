"""Every command that reads somebody's files, with good input to break: run, model, data, scores."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from model_folders import make_folder
from PIL import Image

from ttm_jax.data import world
from ttm_jax.data.folder_reader import write_folder
from ttm_jax.load import load_model
from ttm_jax.weights import big_vision

QUICK = ("--iterations", "1", "--epochs", "1", "--lr", "1e-3", "--quiet")


@dataclass(frozen=True)
class Inputs:
    """Good input, all below one folder; `adapt` has made the run."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "adapted" / "run"

    def copy(self, name: str, to: Path) -> Path:
        """A part of it, to be broken: "adapted", "model", "data", "more", "scores" or "npz"."""
        return shutil.copytree(self.root / name, to)


@dataclass(frozen=True)
class Case:
    """What is broken, and the command that is then given `inputs`, `broken` and `out`."""

    broken: str
    arguments: Callable[[Inputs, Path, Path], list[object]]
    writes_into_it: bool = False  # a resumed run continues in its own folder


def make_inputs(root: Path) -> Inputs:
    """Everything but the run, which a command makes: `adapt_arguments`."""
    make_folder(root / "made", "siglip")
    shutil.move(root / "made" / "model", root / "model")
    write_folder(world.make("color_swap", 4, size=16), root / "data")
    write_folder(world.make("color_swap", 20, size=16), root / "more")  # a diagnosis needs so many
    scores = root / "scores"
    scores.mkdir()
    values = np.random.default_rng(0).normal(size=(3, 2, 2)).astype(np.float32)
    np.savez(scores / "s.npz", scores=values, truth=np.tile([0, 1], (3, 1)))
    Image.new("RGB", (20, 16), (200, 30, 30)).save(root / "picture.png")
    (root / "npz").mkdir()
    model = load_model(root / "model")
    big_vision.save(root / "npz" / "model.npz", model.config, model.params)
    return Inputs(root)


def adapt_arguments(inputs: Inputs, out: Path, **changed: Path) -> list[object]:
    paths = {"model": inputs.root / "model", "data": inputs.root / "data", **changed}
    return ["adapt", "--model", paths["model"], "--data", paths["data"], "--out", out, *QUICK]


def _diagnose(model: Path, data: Path, out: Path) -> list[object]:
    return ["diagnose", "--model", model, "--data", data, "--figure", out / "margins.png"]


def _score(inputs: Inputs, model: Path, out: Path, *more: object) -> list[object]:
    what = ("--images", inputs.root / "picture.png", "--captions", "a red box", "a dog")
    return ["score", "--model", model, *what, "--out", out / "s.npz", *more]


CASES: dict[str, Case] = {
    "report: run": Case(
        "adapted", lambda i, b, o: ["report", b / "run", "-o", o / "r.html", "--tables", o / "t"]
    ),
    "compare: run": Case("adapted", lambda i, b, o: ["compare", b / "run", i.run]),
    "figures: run": Case("adapted", lambda i, b, o: ["figures", b / "run", "-o", o / "figures"]),
    "export: run": Case("adapted", lambda i, b, o: ["export", b / "run", o / "exported"]),
    "inspect: run": Case("adapted", lambda i, b, o: ["inspect", b / "run", "--depth", "2"]),
    "inspect --scores: run": Case("adapted", lambda i, b, o: ["inspect", b / "run", "--scores"]),
    "score: run": Case("adapted", lambda i, b, o: _score(i, b / "run", o)),
    "adapt, resumed: run": Case(
        "adapted", lambda i, b, o: adapt_arguments(i, b), writes_into_it=True
    ),
    "score: model": Case("model", lambda i, b, o: _score(i, b, o)),
    "inspect: model": Case("model", lambda i, b, o: ["inspect", b, "--depth", "2"]),
    "inspect --diff: model": Case(
        "model", lambda i, b, o: ["inspect", "--diff", b, i.root / "model", "--figure", o / "d.png"]
    ),
    "diagnose: model": Case("model", lambda i, b, o: _diagnose(b, i.root / "more", o)),
    "diagnose: data": Case("more", lambda i, b, o: _diagnose(i.root / "model", b, o)),
    "adapt: model": Case("model", lambda i, b, o: adapt_arguments(i, o / "new", model=b)),
    "score: npz": Case(
        "npz",
        lambda i, b, o: _score(i, b / "model.npz", o, "--files-from", i.root / "model"),
    ),
    "inspect: npz": Case("npz", lambda i, b, o: ["inspect", b / "model.npz"]),
    "evaluate: scores": Case(
        "scores", lambda i, b, o: ["evaluate", b / "s.npz", "--figure", o / "c.png"]
    ),
    "adapt: data": Case("data", lambda i, b, o: adapt_arguments(i, o / "new", data=b)),
    "adapt --dry-run: data": Case(
        "data", lambda i, b, o: [*adapt_arguments(i, o / "new", data=b), "--dry-run"]
    ),
}
