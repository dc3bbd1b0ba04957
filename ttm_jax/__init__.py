"""Test-Time Matching in JAX: adapt an image-text model to its test set, without labels.

    model = ttm_jax.load_model("google/siglip-base-patch16-224")
    dataset = ttm_jax.read_folder("my_data")
    result = ttm_jax.run_ttm(model, dataset, ttm_jax.TTMConfig())

`import ttm_jax` is light: submodules are imported when one of their names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttm_jax.config import Memory, TTMConfig
    from ttm_jax.data.benchmarks.catalogue import load_benchmark
    from ttm_jax.data.folder_reader import read_folder
    from ttm_jax.data.folder_writer import write_folder
    from ttm_jax.data.groups import Group, GroupedDataset
    from ttm_jax.engine.diagnosis import Diagnosis, diagnose
    from ttm_jax.engine.result import TTMResult
    from ttm_jax.engine.seeds import run_seeds
    from ttm_jax.engine.simple_match import simple_match
    from ttm_jax.engine.ttm import run_ttm
    from ttm_jax.errors import InputError
    from ttm_jax.load import load_model
    from ttm_jax.matching.metrics import evaluate, evaluate_global
    from ttm_jax.runs.console import Console
    from ttm_jax.scorers.contrastive.own_model import own_model

_HOME = {
    "Console": "runs.console",
    "Diagnosis": "engine.diagnosis",
    "Group": "data.groups",
    "GroupedDataset": "data.groups",
    "InputError": "errors",
    "Memory": "config",
    "TTMConfig": "config",
    "TTMResult": "engine.result",
    "diagnose": "engine.diagnosis",
    "evaluate": "matching.metrics",
    "evaluate_global": "matching.metrics",
    "load_benchmark": "data.benchmarks.catalogue",
    "load_model": "load",
    "own_model": "scorers.contrastive.own_model",
    "read_folder": "data.folder_reader",
    "run_seeds": "engine.seeds",
    "run_ttm": "engine.ttm",
    "simple_match": "engine.simple_match",
    "write_folder": "data.folder_writer",
}

__all__ = [
    "Console",
    "Diagnosis",
    "Group",
    "GroupedDataset",
    "InputError",
    "Memory",
    "TTMConfig",
    "TTMResult",
    "diagnose",
    "evaluate",
    "evaluate_global",
    "load_benchmark",
    "load_model",
    "own_model",
    "read_folder",
    "run_seeds",
    "run_ttm",
    "simple_match",
    "write_folder",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"ttm_jax.{_HOME[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("ttm_jax")
    raise AttributeError(f"module 'ttm_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
