"""SigLIP-L16 on ColorSwap: Test-Time Matching with four seeds, beside the paper's row.

python -m experiments.colorswap_siglip_l16
python -m experiments.colorswap_siglip_l16 --small
"""

from configs.experiments import COLORSWAP_SIGLIP_L16
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(COLORSWAP_SIGLIP_L16, __doc__))
