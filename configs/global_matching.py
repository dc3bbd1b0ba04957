"""The non-grouped variants with SigLIP-B16: one assignment over all images and captions.

Here tau is a share: the top 1 - tau of the pairs is selected (Sec. 3.2.1).
Results in Table 3, hyperparameters in Table 7.

Optimizer state: App. B.1 says that it is reset at each iteration "with the exception of SigLIP-B16
on Winoground", and not whether that includes the run of this table. It is reset here. The same
section lists "MMVP-VLM with SigLIP-B16" and "MMVP-VLM with SigLIP-B16 under global matching" as two
augmented runs, so a model and a dataset alone name the grouped run. The other reading is

python -m experiments.global_siglip --dataset winoground --keep-opt-state on --run-dir runs/kept
"""

from dataclasses import replace

from configs.preset import Preset
from ttm_jax.config import TTMConfig

TABLE = "global"

_GLOBAL = TTMConfig(matching="global", tau_unit="fraction")
PRESETS = (
    Preset(TABLE, "winoground", "siglip_b16", replace(_GLOBAL, tau_1=0.50, lr=1e-5, epochs=30)),
    Preset(TABLE, "mmvp_vlm", "siglip_b16", replace(_GLOBAL, tau_1=0.55, lr=2e-5, augment=True)),
    Preset(TABLE, "colorswap", "siglip_b16", replace(_GLOBAL, tau_1=0.50, lr=4e-5)),
)
