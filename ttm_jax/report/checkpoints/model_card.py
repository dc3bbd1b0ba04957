"""README.md of an exported model: what it is, how it was made, what it scored, how to load it.

The first lines are the metadata that the Hugging Face hub reads
(https://huggingface.co/docs/hub/model-cards).
"""

from pathlib import Path
from typing import Any

from ttm_jax.files import write_text
from ttm_jax.inputs.open_clip_files import is_open_clip
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.plain_text import one_line
from ttm_jax.report.run_data import SeedRun

_SETTINGS = (
    "matching", "iterations", "epochs", "lr", "batch_groups", "tau_T", "schedule", "train",
    "augment", "dtype",
)  # fmt: skip


def write_card(folder: Path, run: SeedRun, iteration: int | None = None, name: str = "") -> None:
    """Write README.md into an exported folder."""
    text = card(run, iteration, name or folder.resolve().name, is_open_clip(folder))
    write_text(folder / "README.md", text)


def card(
    run: SeedRun, iteration: int | None = None, name: str = "model", open_clip: bool = False
) -> str:
    """The text. `name` is what `load_model` gets: a folder, or a name on the hub."""
    last = run.last if iteration is None else iteration
    base = one_line(str(run.identity["model"]["source"]))
    dataset = run.identity["dataset"]
    shapes = ", ".join(f"{count} of {shape}" for shape, count in run.shapes.items())
    config = run.config
    taus = [row["tau"] for row in run.rows[1:]]
    settings = {key: config[key] for key in _SETTINGS if key in config}
    if taus:
        settings |= {"tau_1": f"{taus[0]:.4g}"}
    title = one_line(f"{_short(base)} adapted to {dataset['name']}")
    lines = [
        "---",
        *([f"base_model: {base}"] if _is_hub_id(base) else []),
        f"library_name: {'open_clip' if open_clip else 'transformers'}",
        "pipeline_tag: zero-shot-image-classification",
        "tags:",
        "- test-time-matching",
        "---",
        "",
        f"# {title}",
        "",
        f"This is `{base}`, adapted to one test set without labels by Test-Time Matching",
        "(`ttm_jax`). It is meant for that test set; elsewhere, compare it with the base model",
        "first.",
        "",
        f"- Data: `{one_line(str(dataset['name']))}`, {dataset['groups']} groups ({shapes})",
        f"- Iteration: {last} of {config['iterations']}, seed {run.seed}",
        "- Settings: " + ", ".join(f"{key} {value}" for key, value in settings.items()),
        "",
        *_metrics(run, last),
        "## Use",
        "",
        "```python",
        "import ttm_jax",
        "",
        f'model = ttm_jax.load_model("{_quoted(name)}")',
        'scores = model.score(["photo.jpg"], ["a caption", "another caption"])',
        "```",
        "",
        "Also with OpenCLIP: `open_clip.create_model_from_pretrained`."
        if open_clip
        else f'Also with transformers: `AutoModel.from_pretrained("{_quoted(name)}")`.',
        "",
    ]
    return "\n".join(lines)


def _metrics(run: SeedRun, last: int) -> list[str]:
    """Before and after, if the truth was known."""
    before, after = run.rows[0]["metrics"], _row(run, last)["metrics"]
    if not before:
        return ["The true pairs were not known, so nothing was measured.", ""]
    rows = [
        f"| {METRICS[name].label} | {before[name]['percent']:.2f} | {after[name]['percent']:.2f} | "
        f"{before[name]['chance']:.2f} |"
        for name in before
        if name in METRICS and name in after
    ]
    head = ["| metric, percent | before | after | chance |", "| --- | --- | --- | --- |"]
    note = "Labels were used for this table and for nothing else."
    return [*head, *rows, "", note, ""]


def _row(run: SeedRun, iteration: int) -> dict[str, Any]:
    return next(row for row in run.rows if row["iteration"] == iteration)


def _is_hub_id(source: str) -> bool:
    return (
        source.count("/") == 1 and not source.startswith((".", "/")) and not Path(source).exists()
    )


def _short(source: str) -> str:
    return source.rstrip("/").split("/")[-1]


def _quoted(name: str) -> str:
    return one_line(name).replace("\\", "\\\\").replace('"', '\\"')
