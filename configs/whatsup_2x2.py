"""Four directional variants of WhatsUp with CLIP-B32: two objects in two opposite relations.

Results in Table 10, hyperparameters in Table 6.
"""

from configs.preset import Preset
from ttm_jax.config import TTMConfig

TABLE = "whatsup_2x2"

PRESETS = (
    Preset(TABLE, "whatsup_a_left_right", "clip_b32", TTMConfig(tau_1=0.25, lr=1e-5, augment=True)),
    Preset(TABLE, "whatsup_a_on_under", "clip_b32", TTMConfig(tau_1=0.85, lr=1e-5)),
    Preset(
        TABLE,
        "whatsup_b_left_right",
        "clip_b32",
        TTMConfig(tau_1=0.50, schedule="cosine", lr=2e-5),
    ),
    Preset(
        TABLE,
        "whatsup_b_front_behind",
        "clip_b32",
        TTMConfig(tau_1=1.30, schedule="cosine", lr=2e-5),
    ),
)
