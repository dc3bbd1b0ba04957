"""Imports point one way. CONTRIBUTING.md says the same in words; the order is written down here."""

import ast
from pathlib import Path

import pytest
from paths import TESTS

ROOT = TESTS.parent

# A package may import from any line above its own, and from itself; not from its own line.
LAYERS = (
    ("fault_points", "plain_text", "progress_bar"),
    ("errors",),
    ("limits", "trained_part"),
    ("config", "files", "bucket_storage"),
    ("hosts",),
    ("matching", "inputs", "models"),
    ("data", "weights", "training"),
    ("runs",),
    ("scorers", "engine"),
    ("load",),
    ("small", "report"),
    ("cli",),
    ("configs",),
    ("experiments",),
)
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}
# What a package may not load, whatever its layer: it must stay usable where these are absent.
FORBIDDEN = {
    "matching": {"jax", "flax", "optax", "orbax", "torch"},
    "inputs": {"jax", "flax", "optax", "orbax", "torch"},
}
# Blockwise scores of more pairs than a matrix holds; imported when there are that many.
ALLOWED = {"ttm_jax/matching/large/tiles.py": {"jax"}}


def modules() -> list[Path]:
    found = [*(ROOT / "ttm_jax").rglob("*.py"), *(ROOT / "configs").glob("*.py")]
    return [*found, *(ROOT / "experiments").glob("*.py")]


def room(path: Path) -> str:
    """The part of the project that a file belongs to: a folder, or a module at the top."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "ttm_jax" else parts[0]


def imported(path: Path) -> set[str]:
    """Dotted names of everything that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def target(name: str) -> str | None:
    """The part of the project that an import leads to; None for other packages."""
    top, _, rest = name.partition(".")
    if top in ("configs", "experiments"):
        return top
    inner = rest.split(".")[0]
    return inner if top == "ttm_jax" and inner in LEVEL else None


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    here = room(path)
    if here == "__init__":  # the public door imports from everywhere
        return
    assert here in LEVEL, f"{here} is not in LAYERS: say where it belongs"
    for name in imported(path):
        there = target(name)
        if there is not None and there != here:
            assert LEVEL[there] < LEVEL[here], f"{path.relative_to(ROOT)} imports {name}"
        top, exceptions = name.split(".")[0], ALLOWED.get(str(path.relative_to(ROOT)), ())
        assert top not in FORBIDDEN.get(here, ()) or top in exceptions, f"{path} imports {name}"
        assert name.split(".")[0] != "torch", f"{path}: PyTorch is for tests and benchmarks only"


def test_the_order_is_written_down_once():
    """CONTRIBUTING.md lists the same layers in the same order."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = [page.find(f"`{layer[0]}`") for layer in LAYERS]
    assert -1 not in places
    assert places == sorted(places)


def test_every_folder_says_what_it_is_for():
    for folder in (ROOT / "ttm_jax").rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(folder.read_text(encoding="utf-8")))
        assert text, f"{folder} has no sentence on what the folder is for"
