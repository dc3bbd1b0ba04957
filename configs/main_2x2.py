"""Winoground, MMVP-VLM and ColorSwap with CLIP and SigLIP (Table 1; hyperparameters in Table 4).

python -m experiments.mmvp_siglip
"""

from configs.preset import Preset
from ttm_jax.config import TTMConfig

TABLE = "main_2x2"

PRESETS = (
    Preset(TABLE, "winoground", "clip_b16", TTMConfig(tau_1=0.9, lr=2e-5, epochs=30)),
    # The only run that keeps the optimizer state; configs/global_matching.py says why the only one.
    Preset(
        TABLE,
        "winoground",
        "siglip_b16",
        TTMConfig(tau_1=2.0, lr=1e-5, epochs=30, keep_opt_state=True),
    ),
    Preset(
        TABLE,
        "winoground",
        "siglip_l16",
        TTMConfig(tau_1=2.0, tau_T=0.1, schedule="cosine", lr=4e-5, epochs=30, augment=True),
    ),
    Preset(TABLE, "mmvp_vlm", "clip_b16", TTMConfig(tau_1=2.0, lr=1e-5)),
    Preset(
        TABLE,
        "mmvp_vlm",
        "siglip_b16",
        TTMConfig(tau_1=2.0, tau_T=0.1, schedule="cosine", lr=2e-5, augment=True),
    ),
    Preset(TABLE, "colorswap", "clip_b16", TTMConfig(tau_1=2.3, schedule="cosine", lr=4e-5)),
    Preset(
        TABLE,
        "colorswap",
        "siglip_b16",
        TTMConfig(tau_1=1.0, schedule="cosine", lr=4e-5, augment=True),
    ),
    Preset(TABLE, "colorswap", "siglip_l16", TTMConfig(tau_1=2.5, schedule="cosine", lr=4e-5)),
)
