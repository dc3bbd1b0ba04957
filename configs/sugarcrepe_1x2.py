"""Four subsets of SugarCrepe with SigLIP-B16: one image, the right caption and a wrong one.

Results in Table 8, hyperparameters in Table 6.
"""

from configs.preset import Preset
from ttm_jax.config import TTMConfig

TABLE = "sugarcrepe_1x2"


def _preset(subset: str, tau_1: float) -> Preset:
    ttm = TTMConfig(tau_1=tau_1, schedule="cosine", lr=1e-5, batch_groups=100)
    return Preset(TABLE, f"sugarcrepe_{subset}", "siglip_b16", ttm)


PRESETS = (
    _preset("replace_rel", 2.1),
    _preset("swap_att", 1.8),
    _preset("swap_obj", 2.0),
    _preset("add_att", 2.5),
)
