"""Recommended settings for your own data: the model's own, or the paper's, with tau_1 by coverage.

Where nobody recommends a learning rate, `learning_rate.find_rate` looks for one.
"""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from ttm_jax.config import Matching, TTMConfig
from ttm_jax.data.paper.models import MODELS
from ttm_jax.errors import InputError
from ttm_jax.inputs.model_advice import Advice

_TYPES = {field.name: field.type for field in fields(TTMConfig)}


def own_data_config(
    shapes: Iterable[tuple[int, int]], matching: Matching, *, generative: bool = False
) -> TTMConfig:
    """The settings that the paper uses where it does not tune for a benchmark (App. B.1).

    20 % of the groups (global: 50 % of the pairs) are selected at first, and all of them at the
    end. A batch has 50 groups, or 100 if every group has a single image. `generative` is for models
    such as SmolVLM.
    """
    if generative:
        return TTMConfig(
            matching=matching,
            tau_unit="fraction" if matching == "global" else "probability",
            lr=4e-5,
            iterations=3,
            epochs=10,
            batch_groups=16,
        )
    if matching == "global":
        return TTMConfig(matching="global", tau_unit="fraction", lr=1e-5)
    single = all(images == 1 for images, _ in shapes)
    return TTMConfig(lr=1e-5, batch_groups=100 if single else 50)


def with_advice(config: TTMConfig, advice: Advice, source: str) -> TTMConfig:
    """The config with the settings that the model recommends for itself."""
    changes: dict[str, Any] = {}
    for name, value in advice.settings.items():
        if name not in _TYPES or isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(
                f"advice.json of {source}: {name} {value!r} is no setting of TTMConfig"
            )
        if _TYPES[name] is int and not isinstance(value, int):
            raise InputError(f"advice.json of {source}: {name} is {value}; expected a whole number")
        changes[name] = value if _TYPES[name] is int else float(value)
    return replace(config, **changes)


def rate_is_known(advice: Advice, source: str, *, generative: bool) -> bool:
    """Whether a learning rate is recommended, by the model or by the paper (its own models)."""
    return generative or "lr" in advice.settings or source in MODELS.values()
