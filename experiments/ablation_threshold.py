"""Three first thresholds: SigLIP-B16 on Winoground.

python -m experiments.ablation_threshold
python -m experiments.ablation_threshold --small
"""

from configs.experiments import ABLATION_THRESHOLD
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(ABLATION_THRESHOLD, __doc__))
