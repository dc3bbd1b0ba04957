"""Selecting what is right, a skyline with labels: SigLIP-B16 on Winoground.

python -m experiments.ablation_oracle
python -m experiments.ablation_oracle --small
"""

from configs.experiments import ABLATION_ORACLE
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(ABLATION_ORACLE, __doc__))
