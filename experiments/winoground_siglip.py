"""SigLIP-B16 on Winoground: Test-Time Matching with four seeds, beside the paper's row.

    python -m experiments.winoground_siglip
    python -m experiments.winoground_siglip --small

Winoground is gated: accept its terms on the hub and set HF_TOKEN once (docs/data.md).
"""

from configs.experiments import WINOGROUND_SIGLIP
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(WINOGROUND_SIGLIP, __doc__))
