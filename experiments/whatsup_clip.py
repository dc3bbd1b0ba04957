"""CLIP-B32 on WhatsUp A and B: one image with four captions, and the four directional 2x2 variants.

python -m experiments.whatsup_clip --variant a a_left_right
python -m experiments.whatsup_clip --variant a_left_right --no-correction
python -m experiments.whatsup_clip --small
"""

import sys
from dataclasses import dataclass
from typing import Literal

from configs.experiments import WHATSUP_CLIP
from experiments._flags import Flags
from experiments._paper import run_experiment
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, parse

Variant = Literal["a", "b", "a_left_right", "a_on_under", "b_left_right", "b_front_behind"]


@dataclass(frozen=True)
class Args(Flags):
    variant: tuple[Variant, ...] = (
        "a", "b", "a_left_right", "a_on_under", "b_left_right", "b_front_behind",
    )  # fmt: skip
    """Parts (1x4) and directional variants (2x2); the default is all six."""
    correction: Switch = True
    """Exchange the two images that part A mislabels, as the paper does; the summary says which."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.whatsup_clip", __doc__)
    run_experiment(WHATSUP_CLIP.only(args.variant), args, args.correction)


if __name__ == "__main__":
    run(main)
