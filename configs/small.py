"""Settings for small models on the procedural world.

The first threshold follows the paper's rule (a share of the groups, no labels).
"""

from ttm_jax.config import TTMConfig

GROUPS = 200
"""Groups of each benchmark variant."""

SMALL = TTMConfig(lr=2e-4, iterations=5, epochs=10, batch_groups=50, schedule="linear")
"""k x k groups; 1 x k groups take 100 a batch, as in the paper."""


def small_config(shape: tuple[int, int], matching: str = "group") -> TTMConfig:
    from dataclasses import replace

    if matching == "global":
        return replace(SMALL, matching="global", tau_unit="fraction", tau_1=0.5)
    return replace(SMALL, batch_groups=100) if shape[0] == 1 else SMALL
