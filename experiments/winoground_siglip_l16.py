"""SigLIP-L16 on Winoground: Test-Time Matching with four seeds, beside the paper's row.

    python -m experiments.winoground_siglip_l16
    python -m experiments.winoground_siglip_l16 --small

Winoground is gated: accept its terms on the hub and set HF_TOKEN once (docs/data.md).
"""

from configs.experiments import WINOGROUND_SIGLIP_L16
from experiments._paper import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main(WINOGROUND_SIGLIP_L16, __doc__))
