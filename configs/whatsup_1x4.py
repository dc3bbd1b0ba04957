"""WhatsUp A and B with CLIP-B32: one image and four captions that differ in the preposition.

Results in Table 9, hyperparameters in Table 6.
"""

from configs.preset import Preset
from ttm_jax.config import TTMConfig

TABLE = "whatsup_1x4"

PRESETS = (
    Preset(TABLE, "whatsup_a", "clip_b32", TTMConfig(tau_1=0.55, lr=1e-5, batch_groups=100)),
    Preset(TABLE, "whatsup_b", "clip_b32", TTMConfig(tau_1=0.80, lr=1e-5, batch_groups=100)),
)
