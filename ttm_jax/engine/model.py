"""The interface that the engine requires of a model; `scorers` contains the implementations."""

from typing import Protocol, runtime_checkable

from jax.sharding import Mesh

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.training.task import Task


@runtime_checkable
class Model(Protocol):
    """An image-text model that can be scored on a dataset and trained on it."""

    @property
    def source(self) -> str:
        """Where it was loaded from, for `load_model`; "memory" if it has no files."""

    def release(self) -> None:
        """Let the parameters go; the model is of no use afterwards."""

    def bind(self, dataset: GroupedDataset, config: TTMConfig, mesh: Mesh, seed: int) -> Task:
        """Preprocess the dataset and place it on the devices together with the parameters."""
