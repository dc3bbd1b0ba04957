"""SigLIP-B16 without groups: one assignment over all images and captions.

python -m experiments.global_siglip --dataset mmvp_vlm
python -m experiments.global_siglip --small
"""

import sys
from dataclasses import dataclass
from typing import Literal

from configs.experiments import GLOBAL_SIGLIP
from experiments._flags import Flags
from experiments._paper import run_experiment
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import parse

Dataset = Literal["winoground", "mmvp_vlm", "colorswap"]


@dataclass(frozen=True)
class Args(Flags):
    dataset: tuple[Dataset, ...] = ("winoground", "mmvp_vlm", "colorswap")
    """Benchmarks whose groups are dissolved; the default is all three."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.global_siglip", __doc__)
    run_experiment(GLOBAL_SIGLIP.only(args.dataset), args)


if __name__ == "__main__":
    run(main)
