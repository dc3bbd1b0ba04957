"""Settings for data of your own: the paper's defaults, with tau_1 from the coverage rule."""

from collections.abc import Iterable

from ttm_jax.config import Matching, TTMConfig


def own_data_config(
    shapes: Iterable[tuple[int, int]], matching: Matching, *, generative: bool = False
) -> TTMConfig:
    """What the paper uses where it does not tune for a benchmark (App. B.1).

    20 % of the groups (global: 50 % of the pairs) are selected at first, all in the end. Batches
    are of 50 groups, or of 100 if every group has a single image. `generative` is for models such
    as SmolVLM.
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
