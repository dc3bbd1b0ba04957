"""`python -m experiments`: what can be run, where the paper has it, and what it needs."""

import ast
from pathlib import Path

from configs.experiments import ABLATIONS, ROWS
from configs.models import MODELS
from ttm_jax.cli import run
from ttm_jax.data.benchmarks import find_benchmark

HERE = Path(__file__).parent
API = {"winoground_gpt": "winoground", "mmvp_gpt": "mmvp_vlm", "colorswap_gpt": "colorswap"}
NOTES = """
python -m experiments.NAME --help has the flags. --small runs the same experiment with a small model
on drawn pictures: no download. Data comes by itself or with python -m experiments.prepare_data;
winoground is gated (docs/data.md). python -m experiments.reproduce runs whole tables."""


def about(name: str) -> str:
    """The first line of a module, read without importing it."""
    tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")


def commands() -> list[str]:
    """Every module that can be run."""
    return sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def lines() -> list[str]:
    """The page, line by line."""
    listed: set[str] = set(API)
    page = []
    for title, group in (("The paper's tables", ROWS), ("Analyses and ablations", ABLATIONS)):
        page.append(f"\n{title}")
        for experiment in group:
            listed.add(experiment.name)
            sources = dict.fromkeys(find_benchmark(name).source for name in experiment.datasets)
            needs = f"{', '.join(experiment.models)} + {', '.join(sources)}"
            page.append(_line(experiment.name, experiment.where, needs))
    page.append("\nModels behind an API (a key, and money; docs/api.md)")
    page += [_line(name, "Table 1", f"gpt-4.1 + {data}") for name, data in API.items()]
    page.append("\nTools")
    page += [f"  {name:22} {about(name)}" for name in commands() if name not in listed]
    models = [f"  {name:22} {source}" for name, source in MODELS.items()]
    return [*page, "\nModels, on the Hugging Face hub", *models, NOTES]


def _line(name: str, where: str, needs: str) -> str:
    return f"  {name:22} {where:24} {needs:45} {about(name).partition(':')[0]}"


def main() -> None:
    print("\n".join(lines()).lstrip("\n"))


if __name__ == "__main__":
    run(main)
