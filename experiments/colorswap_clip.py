"""CLIP-B16 on ColorSwap: Test-Time Matching with four seeds, beside the paper's row.

python -m experiments.colorswap_clip
python -m experiments.colorswap_clip --small
"""

from configs.experiments import COLORSWAP_CLIP
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(COLORSWAP_CLIP, __doc__))
