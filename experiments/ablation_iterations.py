"""3, 5 and 10 iterations: SigLIP-B16 on Winoground, MMVP-VLM and ColorSwap.

    python -m experiments.ablation_iterations --dataset mmvp_vlm
    python -m experiments.ablation_iterations --iterations 5
    python -m experiments.ablation_iterations --small

`--iterations N` leaves out the runs of more than N iterations.
"""

import sys
from dataclasses import dataclass, replace
from typing import Literal

from configs.experiments import ABLATION_ITERATIONS
from experiments._flags import Flags
from experiments._paper import run_experiment
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import parse
from ttm_jax.errors import InputError

Dataset = Literal["winoground", "mmvp_vlm", "colorswap"]


@dataclass(frozen=True)
class Args(Flags):
    dataset: tuple[Dataset, ...] = ("winoground", "mmvp_vlm", "colorswap")
    """Benchmarks; the default is all three."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.ablation_iterations", __doc__)
    most = 10 if args.iterations is None else args.iterations
    arms = [
        arm.label
        for arm in ABLATION_ITERATIONS.arms
        if arm.preset.dataset in args.dataset and arm.changes["iterations"] <= most
    ]
    if not arms:
        raise InputError(f"--iterations is {most}; the shortest runs of the paper have 3")
    run_experiment(ABLATION_ITERATIONS.only(arms), replace(args, iterations=None))


if __name__ == "__main__":
    run(main)
