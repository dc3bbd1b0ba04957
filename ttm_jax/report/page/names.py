"""How the page calls experiments, models and pictures: as their owner does."""

import os
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from ttm_jax.plain_text import one_line
from ttm_jax.report.decisions import unit_names
from ttm_jax.report.run_data import Experiment, SeedRun
from ttm_jax.report.tables.paper_numbers import pretty

_SEPARATOR = re.compile(r"[/\\]")
_WORLD = re.compile(r"world-(.+)-(?:test|train)")


def data_name(experiment: Experiment) -> str:
    """The dataset; benchmarks of the procedural world by the name that `ttm world` knows."""
    name = experiment.dataset
    world = _WORLD.fullmatch(name)
    return world[1] if world else pretty(name)


def model_name(experiment: Experiment) -> str:
    """The model; of a folder its last part, of a hub id the whole."""
    name = pretty(experiment.model)
    parts = [part for part in _SEPARATOR.split(name) if part]
    is_path = name.startswith((".", "/", "~", "\\")) or ":" in name or len(parts) > 2
    return parts[-1] if is_path and parts else name


def title_of(experiment: Experiment) -> str:
    return f"{data_name(experiment)}, {model_name(experiment)}"


def page_title(experiments: Sequence[Experiment]) -> str:
    """Dataset and model, as far as all experiments share them."""
    if len(experiments) == 1:
        return title_of(experiments[0])
    data = sorted({data_name(e) for e in experiments})
    models = sorted({model_name(e) for e in experiments})
    return f"{_few(data, 'datasets')}, {_few(models, 'models')}"


def _few(names: Sequence[str], what: str) -> str:
    return " and ".join(names) if len(names) < 3 else f"{len(names)} {what}"


def folder_names(experiments: Sequence[Experiment]) -> list[str]:
    """The folder of every experiment below the one that all share: "demo/color_swap"."""
    folders = [experiment.folder.resolve() for experiment in experiments]
    common = Path(os.path.commonpath([folder.parent for folder in folders]))
    names = [one_line(str(folder.relative_to(common.parent))) for folder in folders]
    # Two experiments in one folder differ in their settings: count them.
    return [
        name if names.count(name) == 1 else f"{name} ({names[: at + 1].count(name)})"
        for at, name in enumerate(names)
    ]


def unit_titles(run: SeedRun) -> list[str]:
    """What a card is called: the id of a group; of a global matching the file of the image."""
    pictures = run.pictures
    if not run.is_global or pictures is None:
        return unit_names(run)
    files = file_names(pictures.names)
    return [
        files[picture] or f"{group.id}, image {place + 1}"
        for group in pictures.groups
        for place, picture in enumerate(group.images)
    ]


def file_names(paths: Sequence[str | None]) -> list[str | None]:
    """Paths of pictures without the folder that they all share; None stays None."""
    split = [None if path is None else _SEPARATOR.split(path) for path in paths]
    known = [parts for parts in split if parts is not None]
    folders = zip(*(parts[:-1] for parts in known), strict=False)
    shared = len(list(takewhile(lambda level: len(set(level)) == 1, folders)))
    return [None if parts is None else one_line("/".join(parts[shared:])) for parts in split]
