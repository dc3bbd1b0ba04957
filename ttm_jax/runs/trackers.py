"""Experiment trackers: TensorBoard and Weights & Biases, both optional extras."""

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ttm_jax.errors import InputError
from ttm_jax.hosts.this_host import is_first


@runtime_checkable
class Tracker(Protocol):
    """Receives the metrics.jsonl row of every iteration."""

    def log(self, row: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


def numbers(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a row, flattened: "loss", "tau", "metrics/group_match", ..."""
    flat = {f"metrics/{name}": value["percent"] for name, value in row["metrics"].items()}
    for name in ("tau", "selected", "precision", "loss", "lr", "seconds"):
        if row.get(name) is not None:
            flat[name] = float(row[name])
    return flat


class TensorBoard:
    """Event files in the run folder, written by tensorboardX."""

    def __init__(self, folder: Path) -> None:
        check_trackers(tensorboard=True)
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def log(self, row: dict[str, Any]) -> None:
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, row["iteration"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run in a project; the API key comes only from the environment or `wandb login`."""

    def __init__(self, project: str, name: str, folder: Path | None) -> None:
        check_trackers(wandb=project)
        import wandb

        place = None if folder is None else str(folder)
        self._run = wandb.init(project=project, name=name, dir=place, reinit="create_new")

    def log(self, row: dict[str, Any]) -> None:
        self._run.log(numbers(row), step=row["iteration"])

    def close(self) -> None:
        self._run.finish()


def check_trackers(*, tensorboard: bool = False, wandb: str | None = None) -> None:
    """Refuse a tracker whose package is missing: commands ask before they load a model."""
    asked = {
        "tensorboardX": ("TensorBoard", "tensorboard", tensorboard),
        "wandb": ("Weights & Biases", "wandb", wandb is not None),
    }
    for package, (name, extra, is_wanted) in asked.items():
        try:
            if is_wanted:
                import_module(package)
        except ImportError as error:
            raise InputError(
                f"{name} needs a package: pip install {package} (the extra `{extra}`)"
            ) from error


def open_trackers(
    folder: Path | None, name: str, *, tensorboard: bool = False, wandb: str | None = None
) -> list[Tracker]:
    """Open the requested trackers, on the host that writes."""
    trackers: list[Tracker] = []
    if not is_first():
        return trackers
    if tensorboard:
        if folder is None:
            raise InputError("TensorBoard writes into the run folder, but none was given")
        trackers.append(TensorBoard(folder / "tensorboard"))
    if wandb is not None:
        trackers.append(WeightsAndBiases(wandb, name, folder))
    return trackers
