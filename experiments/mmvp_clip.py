"""CLIP-B16 on MMVP-VLM: Test-Time Matching with four seeds, beside the paper's row.

python -m experiments.mmvp_clip
python -m experiments.mmvp_clip --small
"""

from configs.experiments import MMVP_CLIP
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(MMVP_CLIP, __doc__))
