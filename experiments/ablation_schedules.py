"""Constant, ascending and decaying thresholds: SigLIP-B16 on Winoground.

python -m experiments.ablation_schedules
python -m experiments.ablation_schedules --small
"""

from configs.experiments import ABLATION_SCHEDULES
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(ABLATION_SCHEDULES, __doc__))
