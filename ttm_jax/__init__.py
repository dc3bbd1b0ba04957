"""Test-Time Matching in JAX. `import ttm_jax` is light: what is heavy is imported when it is used.

model = ttm_jax.load_model("google/siglip-base-patch16-224")
scores = model.score(images, captions)
result = ttm_jax.run_ttm(model, dataset, ttm_jax.TTMConfig())
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttm_jax.config import Memory, TTMConfig
    from ttm_jax.console import Console
    from ttm_jax.data.benchmarks import load_benchmark
    from ttm_jax.data.folder import read_folder, write_folder
    from ttm_jax.data.groups import Group, GroupedDataset
    from ttm_jax.errors import InputError
    from ttm_jax.load import load_model
    from ttm_jax.metrics import evaluate, evaluate_global
    from ttm_jax.seeds import run_seeds
    from ttm_jax.simple_match import simple_match
    from ttm_jax.ttm import TTMResult, run_ttm

_HOME = {
    "Console": "console",
    "Group": "data.groups",
    "GroupedDataset": "data.groups",
    "InputError": "errors",
    "Memory": "config",
    "TTMConfig": "config",
    "TTMResult": "ttm",
    "evaluate": "metrics",
    "evaluate_global": "metrics",
    "load_benchmark": "data.benchmarks",
    "load_model": "load",
    "read_folder": "data.folder",
    "run_seeds": "seeds",
    "run_ttm": "ttm",
    "simple_match": "simple_match",
    "write_folder": "data.folder",
}

__all__ = [
    "Console",
    "Group",
    "GroupedDataset",
    "InputError",
    "Memory",
    "TTMConfig",
    "TTMResult",
    "evaluate",
    "evaluate_global",
    "load_benchmark",
    "load_model",
    "read_folder",
    "run_seeds",
    "run_ttm",
    "simple_match",
    "write_folder",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"ttm_jax.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ttm_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
