"""The wheel: it holds ttm_jax only, and works in an environment with nothing of the clone."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from paths import TESTS

pytestmark = pytest.mark.long

ROOT = TESTS.parent
FIVE_LINES = """
import ttm_jax

model = ttm_jax.load_model("small-siglip")
dataset = ttm_jax.read_folder("my_data")
config = ttm_jax.TTMConfig(lr=2e-4, iterations=1, epochs=1)
result = ttm_jax.run_ttm(model, dataset, config, run_dir="runs/mine")
print(result.raw_metrics, result.metrics, result.matchings)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from the files that git tracks, with the build tools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "ttm_jax", "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, tracked.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source)
    (found,) = folder.glob("*.whl")
    return found


def pip(python: str | Path, *words: str | Path) -> None:
    command = [str(python), "-m", "pip", "-q", "--disable-pip-version-check", *map(str, words)]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def clean_environment() -> dict[str, str]:
    """Without what would let a process see this clone."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "XLA_FLAGS")}


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A clean environment with the wheel; its dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # Only finished packages come from here: no .pth file is read, so the clone stays invisible.
    (site / "dependencies.pth").write_text("import dependencies\n")
    (site / "dependencies.py").write_text(
        f"import sys\nsys.path.append({sysconfig.get_paths()['purelib']!r})\n"
    )
    pip(sys.executable, "--python", folder / "bin" / "python", "install", "--no-deps", wheel)
    return folder / "bin"


def run(installed: Path, folder: Path, *words: str) -> str:
    done = subprocess.run(
        words, cwd=folder, env=clean_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_holds_the_package_only(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"ttm_jax"}
    for wanted in (
        "small/models/siglip/model.safetensors", "data/paper/results.csv", "py.typed",
        "report/page/templates/page.html", "report/page/page_script.js",
    ):  # fmt: skip
        assert f"ttm_jax/{wanted}" in names


def test_the_command_and_the_five_lines(installed, tmp_path):
    ttm = str(installed / "ttm")
    where = run(installed, tmp_path, str(installed / "python"), "-c",
                "import ttm_jax; print(ttm_jax.__file__)")  # fmt: skip
    assert str(installed.parent) in where
    demo = run(installed, tmp_path, ttm, "demo", "--variants", "color_swap", "--seeds", "0",
               "--groups", "20", "--iterations", "1", "--epochs", "1", "--quiet")  # fmt: skip
    assert "color_swap" in demo
    run(installed, tmp_path, ttm, "world", "--groups", "6", "--out", "my_data")
    shown = run(installed, tmp_path, str(installed / "python"), "-c", FIVE_LINES)
    assert "group_match" in shown
