"""SigLIP-B16 without groups: one assignment over all images and captions.

python -m experiments.global_siglip --dataset mmvp_vlm
python -m experiments.global_siglip --small
"""

from dataclasses import dataclass
from typing import Literal

import tyro

from configs.experiments import GLOBAL_SIGLIP
from experiments._flags import Flags
from experiments._paper import run_experiment
from ttm_jax.cli import run

Dataset = Literal["winoground", "mmvp_vlm", "colorswap"]


@dataclass(frozen=True)
class Args(Flags):
    dataset: tuple[Dataset, ...] = ("winoground", "mmvp_vlm", "colorswap")
    """Benchmarks whose groups are dissolved; the default is all three."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    run_experiment(GLOBAL_SIGLIP.only(args.dataset), args)


if __name__ == "__main__":
    run(main)
