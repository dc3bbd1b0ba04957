"""Every experiment of the paper as a value: what `python -m experiments.<name>` runs.

An experiment has one arm per row or curve of the paper, and an arm is a preset, perhaps with a
setting changed. `python -m experiments` prints the list.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from configs import PRESETS, find_preset
from configs.preset import Preset
from configs.world import on_the_world
from ttm_jax.config import TTMConfig
from ttm_jax.data.benchmarks.catalogue import find_benchmark
from ttm_jax.errors import InputError

WHERE = {
    "main_2x2": "Table 1",
    "smolvlm": "Table 2",
    "global": "Table 3",
    "sugarcrepe_1x2": "Table 8, Fig. 3",
    "whatsup_1x4": "Table 9, Fig. 3",
    "whatsup_2x2": "Table 10",
    "iterations": "Table 11",
}
"""Where the paper has the results of a table, by its name in `ttm_jax/data/paper`."""


@dataclass(frozen=True)
class Arm:
    """One run: a preset, and what is different from it."""

    label: str
    """Names the folder of the run, where the experiment has several."""
    preset: Preset
    table: str
    """The paper's table of results that it belongs to; "" for figures, which give no numbers."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Fields of the preset's TTMConfig that are replaced."""
    small_changes: dict[str, Any] | None = None
    """The same with `--small`, where the unit of a change would not fit."""

    @property
    def title(self) -> str:
        """What a table says beside the names of data and model; often nothing."""
        said = self.preset.dataset.endswith(self.label) or self.label == self.preset.model
        return "" if said else self.label

    def config(self, small: bool = False) -> TTMConfig:
        if not small:
            return replace(self.preset.ttm, **self.changes)
        changes = self.changes if self.small_changes is None else self.small_changes
        return replace(on_the_world(self.preset), **changes)


@dataclass(frozen=True)
class Experiment:
    name: str
    """Of the module in `experiments`."""
    where: str
    """The paper's table or figure."""
    arms: tuple[Arm, ...]

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm.preset.model for arm in self.arms))

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm.preset.dataset for arm in self.arms))

    def only(self, labels: Sequence[str]) -> "Experiment":
        """The same with some of its arms, in the order of the paper."""
        unknown = set(labels) - {arm.label for arm in self.arms}
        if unknown or not labels:
            raise InputError(
                f"{self.name} has {', '.join(arm.label for arm in self.arms)}; "
                f"not {', '.join(sorted(unknown)) or 'nothing'}"
            )
        return replace(self, arms=tuple(arm for arm in self.arms if arm.label in labels))


def _arm(label: str, preset: Preset) -> Arm:
    return Arm(label, preset, preset.table)


def _row(name: str, dataset: str, model: str) -> Experiment:
    preset = find_preset(dataset, model)
    return Experiment(name, WHERE[preset.table], (_arm(dataset, preset),))


MMVP_SIGLIP = _row("mmvp_siglip", "mmvp_vlm", "siglip_b16")
MMVP_CLIP = _row("mmvp_clip", "mmvp_vlm", "clip_b16")
WINOGROUND_SIGLIP = _row("winoground_siglip", "winoground", "siglip_b16")
WINOGROUND_SIGLIP_L16 = _row("winoground_siglip_l16", "winoground", "siglip_l16")
WINOGROUND_CLIP = _row("winoground_clip", "winoground", "clip_b16")
COLORSWAP_SIGLIP = _row("colorswap_siglip", "colorswap", "siglip_b16")
COLORSWAP_SIGLIP_L16 = _row("colorswap_siglip_l16", "colorswap", "siglip_l16")
COLORSWAP_CLIP = _row("colorswap_clip", "colorswap", "clip_b16")
WINOGROUND_SMOLVLM = _row("winoground_smolvlm", "winoground", "smolvlm_256m")
MMVP_SMOLVLM = _row("mmvp_smolvlm", "mmvp_vlm", "smolvlm_256m")
COLORSWAP_SMOLVLM = _row("colorswap_smolvlm", "colorswap", "smolvlm_256m")

SUGARCREPE_SIGLIP = Experiment(
    "sugarcrepe_siglip",
    WHERE["sugarcrepe_1x2"],
    tuple(
        _arm(subset, find_preset(f"sugarcrepe_{subset}", "siglip_b16"))
        for subset in ("replace_rel", "swap_att", "swap_obj", "add_att")
    ),
)
WHATSUP_CLIP = Experiment(
    "whatsup_clip",
    "Tables 9, 10, Fig. 3",
    tuple(
        _arm(variant, find_preset(f"whatsup_{variant}", "clip_b32"))
        for variant in ("a", "b", "a_left_right", "a_on_under", "b_left_right", "b_front_behind")
    ),
)
GLOBAL_SIGLIP = Experiment(
    "global_siglip",
    WHERE["global"],
    tuple(
        _arm(dataset, find_preset(dataset, "siglip_b16", "global"))
        for dataset in ("winoground", "mmvp_vlm", "colorswap")
    ),
)

SIMPLE_MATCH = Experiment(
    "simple_match",
    "Sec. 3.1, Fig. 1",
    # k x k groups: with one image, SimpleMatch is the raw score.
    tuple(
        Arm(preset.name, preset, "")
        for preset in PRESETS
        if preset.ttm.matching == "group" and find_benchmark(preset.dataset).shape[0] > 1
    ),
)
"""Overfitting to the first matchings, which turns GroupMatch into GroupScore."""

_ABLATED = find_preset("winoground", "siglip_b16")  # in all figures on training

ABLATION_SCHEDULES = Experiment(
    "ablation_schedules",
    "Fig. 2 right",
    (
        Arm("constant", _ABLATED, "", {"schedule": "constant"}),
        Arm("ascending", _ABLATED, "", {"schedule": "ascending"}),
        Arm("decaying", _ABLATED, ""),
    ),
)
ABLATION_THRESHOLD = Experiment(
    "ablation_threshold",
    "Fig. 4 right",
    # The shares of Winoground that SigLIP-B16 selects at these thresholds (Sec. 4.6).
    tuple(
        Arm(f"tau_{tau}", _ABLATED, "", {"tau_1": tau}, {"coverage": coverage})
        for tau, coverage in ((2.5, 0.18), (2.0, 0.21), (1.5, 0.30))
    ),
)
ABLATION_ORACLE = Experiment(
    "ablation_oracle",
    "Fig. 4 middle",
    (Arm("ttm", _ABLATED, ""), Arm("oracle", _ABLATED, "", {"oracle": True})),
)
ABLATION_METRICS = Experiment(
    "ablation_metrics",
    "Fig. 4 left",
    tuple(Arm(model, find_preset("winoground", model), "") for model in ("clip_b16", "siglip_b16")),
)
ABLATION_COVERAGE = Experiment(
    "ablation_coverage",
    "Fig. 2 left, middle",
    tuple(
        Arm(dataset, find_preset(dataset, "siglip_b16"), "")
        for dataset in ("winoground", "sugarcrepe_replace_rel")
    ),
)
ABLATION_ITERATIONS = Experiment(
    "ablation_iterations",
    WHERE["iterations"],
    tuple(
        Arm(
            f"{dataset}_T{count}",
            find_preset(dataset, "siglip_b16"),
            "iterations",
            {"iterations": count},
        )
        for dataset in ("winoground", "mmvp_vlm", "colorswap")
        for count in (3, 5, 10)
    ),
)

ROWS = (
    WINOGROUND_SIGLIP,
    WINOGROUND_SIGLIP_L16,
    WINOGROUND_CLIP,
    MMVP_SIGLIP,
    MMVP_CLIP,
    COLORSWAP_SIGLIP,
    COLORSWAP_SIGLIP_L16,
    COLORSWAP_CLIP,
    WINOGROUND_SMOLVLM,
    MMVP_SMOLVLM,
    COLORSWAP_SMOLVLM,
    GLOBAL_SIGLIP,
    SUGARCREPE_SIGLIP,
    WHATSUP_CLIP,
)
"""Tables 1-3 and 8-10."""
ABLATIONS = (
    SIMPLE_MATCH,
    ABLATION_SCHEDULES,
    ABLATION_THRESHOLD,
    ABLATION_ORACLE,
    ABLATION_METRICS,
    ABLATION_COVERAGE,
    ABLATION_ITERATIONS,
)
"""Section 3.1, Table 11 and the figures."""
EXPERIMENTS = (*ROWS, *ABLATIONS)
GPT = {"winoground_gpt": "winoground", "mmvp_gpt": "mmvp_vlm", "colorswap_gpt": "colorswap"}
"""The commands with GPT-4.1 (Table 1), which is not trained, and their benchmarks."""
