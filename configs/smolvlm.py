"""SmolVLM-256M-Instruct on the three 2x2 benchmarks (Table 2; hyperparameters in Table 5).

Its score is a probability, so tau is a margin of probabilities.
"""

from dataclasses import replace

from configs.preset import Preset
from ttm_jax.config import TTMConfig

TABLE = "smolvlm"

_SMOLVLM = TTMConfig(tau_unit="probability", iterations=3, epochs=10, batch_groups=16)
PRESETS = (
    Preset(
        TABLE,
        "winoground",
        "smolvlm_256m",
        replace(_SMOLVLM, tau_1=0.1, lr=4e-5, batch_groups=32),
    ),
    Preset(TABLE, "mmvp_vlm", "smolvlm_256m", replace(_SMOLVLM, tau_1=0.1, lr=6e-5)),
    Preset(TABLE, "colorswap", "smolvlm_256m", replace(_SMOLVLM, tau_1=0.25, lr=6e-5)),
)
