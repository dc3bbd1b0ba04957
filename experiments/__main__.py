"""`python -m experiments`: what can be run, where the paper has it, and what it needs."""

import ast
import textwrap
from pathlib import Path

from configs.experiments import ABLATIONS, GPT, ROWS, Experiment
from ttm_jax.cli.exit_codes import run
from ttm_jax.data.benchmarks.catalogue import find_benchmark
from ttm_jax.data.paper.models import MODELS

HERE = Path(__file__).parent
WIDTH = 80  # of the page; longer texts continue in their own column
_NAME, _WHERE = 22, 20  # columns
NOTES = """
`python -m experiments.NAME --help` has the flags. --small runs the same
experiment with a small model on drawn pictures: no download. Missing benchmarks
are downloaded, or get them with `ttm data`; winoground is gated (docs/data.md).
`python -m experiments.reproduce` runs whole tables."""


def about(name: str) -> str:
    """The first line of a module, read without importing it."""
    tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")


def commands() -> list[str]:
    """Every module that can be run."""
    return sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def lines() -> list[str]:
    """The page, line by line."""
    listed: set[str] = set(GPT)
    page = []
    for title, group in (("The paper's tables", ROWS), ("Analyses and ablations", ABLATIONS)):
        page.append(f"\n{title}")
        for experiment in group:
            listed.add(experiment.name)
            page += _entry(experiment.name, experiment.where, _needs(experiment))
    page.append("\nModels behind an API (they need a key and cost money; docs/api.md)")
    for name, dataset in GPT.items():
        page += _entry(name, "Table 1", f"gpt-4.1 + {dataset}")
    page.append("\nOther commands")
    for name in commands():
        if name not in listed:
            page += _columns((name,), about(name))
    models = [f"  {name:{_NAME}} {source}" for name, source in MODELS.items()]
    return [*page, "\nModels, on the Hugging Face hub", *models, NOTES]


def _needs(experiment: Experiment) -> str:
    sources = dict.fromkeys(find_benchmark(name).source for name in experiment.datasets)
    return f"{', '.join(experiment.models)} + {', '.join(sources)}"


def _entry(name: str, where: str, needs: str) -> list[str]:
    return _columns((name, where), needs)


def _columns(first: tuple[str, ...], text: str) -> list[str]:
    """One line, or more with the text continued in its own column."""
    start = "  " + " ".join(
        f"{cell:{width}}" for cell, width in zip(first, (_NAME, _WHERE), strict=False)
    )
    parts = textwrap.wrap(text, WIDTH - len(start) - 1) or [""]
    indent = " " * len(start)
    return [f"{start if number == 0 else indent} {part}" for number, part in enumerate(parts)]


def main() -> None:
    print("\n".join(lines()).lstrip("\n"))


if __name__ == "__main__":
    run(main)
