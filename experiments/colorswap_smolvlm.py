"""SmolVLM-256M on ColorSwap: Test-Time Matching with four seeds, beside the paper's row.

    python -m experiments.colorswap_smolvlm
    python -m experiments.colorswap_smolvlm --small

The score of a pair is the probability of "Yes" to the paper's question.
"""

from configs.experiments import COLORSWAP_SMOLVLM
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(COLORSWAP_SMOLVLM, __doc__))
