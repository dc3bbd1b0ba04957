"""Files and helpers of the tests that the rehearsal shares: layouts, assets, captions."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "tests" / "assets"
sys.path.insert(0, str(ROOT / "tests" / "support"))

import benchmark_layouts as layouts  # noqa: E402
import smolvlm_files  # noqa: E402

__all__ = ["ASSETS", "ROOT", "captions", "layouts", "smolvlm_files", "sugarcrepe"]


def sugarcrepe(subset: str) -> dict[str, dict[str, str]]:
    """The real annotation of a subset; add_att and swap_obj are at hand."""
    return json.loads((ASSETS / "sugarcrepe" / f"{subset}.json").read_text())


def captions() -> list[str]:
    """About 1,800 different captions of photographs."""
    entries = [*sugarcrepe("add_att").values(), *sugarcrepe("swap_obj").values()]
    both = (entry[key] for entry in entries for key in ("caption", "negative_caption"))
    return list(dict.fromkeys(both))
