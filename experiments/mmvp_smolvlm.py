"""SmolVLM-256M on MMVP-VLM: Test-Time Matching with four seeds, beside the paper's row.

    python -m experiments.mmvp_smolvlm
    python -m experiments.mmvp_smolvlm --small

The score of a pair is the probability of "Yes" to the paper's question.
"""

from configs.experiments import MMVP_SMOLVLM
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(MMVP_SMOLVLM, __doc__))
