"""SigLIP-B16 on four subsets of SugarCrepe: one image, a right and a wrong caption.

python -m experiments.sugarcrepe_siglip --subset swap_obj
python -m experiments.sugarcrepe_siglip --small
"""

import sys
from dataclasses import dataclass
from typing import Literal

from configs.experiments import SUGARCREPE_SIGLIP
from experiments._flags import Flags
from experiments._paper import run_experiment
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import parse

Subset = Literal["replace_rel", "swap_att", "swap_obj", "add_att"]


@dataclass(frozen=True)
class Args(Flags):
    subset: tuple[Subset, ...] = ("replace_rel", "swap_att", "swap_obj", "add_att")
    """Subsets of SugarCrepe; the default is all that the paper has."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.sugarcrepe_siglip", __doc__)
    run_experiment(SUGARCREPE_SIGLIP.only(args.subset), args)


if __name__ == "__main__":
    run(main)
