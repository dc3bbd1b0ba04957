"""SmolVLM-256M on Winoground: Test-Time Matching with four seeds, beside the paper's row.

    python -m experiments.winoground_smolvlm
    python -m experiments.winoground_smolvlm --small

Winoground is gated: accept its terms on the hub and set HF_TOKEN once (docs/data.md).
The score of a pair is the probability of "Yes" to the paper's question.
"""

from configs.experiments import WINOGROUND_SMOLVLM
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(WINOGROUND_SMOLVLM, __doc__))
