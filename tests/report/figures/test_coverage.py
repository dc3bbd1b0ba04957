"""The figure of coverage and precision."""

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from ttm_jax.matching.coverage_curve import CoveragePoint
from ttm_jax.report.figures.coverage import draw_coverage
from ttm_jax.report.figures.curves import COLOURS

POINTS = [CoveragePoint(0.1 * t, 100 - 9 * t, 100, 60 - 4 * t) for t in range(11)]


def share(picture: np.ndarray, colour: str, alpha: float = 1.0) -> float:
    """How much of a picture has this colour, drawn over white."""
    wanted = alpha * np.array(to_rgb(colour)) + 1 - alpha
    return float((np.abs(picture[..., :3] - wanted) < 0.02).all(axis=-1).mean())


@pytest.mark.parametrize(("unit", "band"), [("groups", True), ("pairs", False)])
def test_colours_and_the_suggested_band(tmp_path, unit, band):
    draw_coverage(POINTS, unit, "made up", tmp_path / "x.png")
    picture = matplotlib.image.imread(tmp_path / "x.png")
    assert share(picture, COLOURS[0]) > 1e-3
    assert share(picture, COLOURS[1]) > 5e-4
    # 15 of 102 percent of the height of the axes
    assert (share(picture, COLOURS[4], 0.15) > 0.05) == band
