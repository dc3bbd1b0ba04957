"""The paper's dataset variants, and the SugarCrepe subsets that it leaves out.

The counts are the papers'; every one of them is checked when a benchmark is loaded.
"""

from ttm_jax.data.benchmarks import whatsup
from ttm_jax.data.benchmarks.benchmark import Benchmark


def _sugarcrepe(subset: str, groups: int, about: str) -> Benchmark:
    name = f"sugarcrepe_{subset}"
    return Benchmark(name, "sugarcrepe", groups, (1, 2), about, "MIT", subset=subset)


def _whatsup(
    part: whatsup.Part, groups: int, about: str, *relations: whatsup.Relation
) -> Benchmark:
    name = "_".join(("whatsup", part, *relations))
    shape = (2, 2) if relations else (1, 4)
    return Benchmark(name, "whatsup", groups, shape, about, "MIT", part=part, relations=relations)


OF_THE_PAPER = (
    Benchmark(
        "winoground", "winoground", 400, (2, 2), "the same words reordered",
        "research only, gated", exif=True,
    ),
    Benchmark(
        "mmvp_vlm", "mmvp_vlm", 135, (2, 2), "nine visual patterns that CLIP overlooks", "MIT"
    ),
    Benchmark(
        "colorswap", "colorswap", 300, (2, 2), "the colours of two objects swapped", "MIT",
        exif=True,
    ),
    _sugarcrepe("replace_rel", 1406, "a relation replaced"),
    _sugarcrepe("swap_att", 666, "two attributes swapped"),
    _sugarcrepe("swap_obj", 245, "two objects swapped"),
    _sugarcrepe("add_att", 692, "an attribute added"),
    _sugarcrepe("add_obj", 2062, "an object added (not in the paper)"),
    _sugarcrepe("replace_att", 788, "an attribute replaced (not in the paper)"),
    _sugarcrepe("replace_obj", 1652, "an object replaced (not in the paper)"),
    _whatsup("a", 412, "part A: left of, right of, on or under"),
    _whatsup("b", 408, "part B: left of, right of, in front of or behind"),
    _whatsup("a", 103, "part A: left against right", "left", "right"),
    _whatsup("a", 103, "part A: on against under", "on", "under"),
    _whatsup("b", 102, "part B: left against right", "left", "right"),
    _whatsup("b", 102, "part B: front against behind", "front", "behind"),
)  # fmt: skip
