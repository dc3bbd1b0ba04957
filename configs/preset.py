"""What a preset is: a run of the paper as a value, to be changed with `dataclasses.replace`."""

from dataclasses import dataclass

from ttm_jax.config import TTMConfig


@dataclass(frozen=True)
class Preset:
    """One row of the paper's hyperparameter tables (App. B.1)."""

    table: str
    """The table of results that the run belongs to."""
    dataset: str
    """A name in `BENCHMARKS` (data.benchmarks.catalogue); global matching dissolves its groups."""
    model: str
    """A name in `MODELS` (ttm_jax.data.paper.models)."""
    ttm: TTMConfig

    @property
    def name(self) -> str:
        """Unique among the presets, and fit for a folder: `mmvp_vlm_siglip_b16`."""
        kind = "_global" if self.ttm.matching == "global" else ""
        return f"{self.dataset}{kind}_{self.model}"
