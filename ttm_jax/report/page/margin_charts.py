"""Charts about confidence, before and after: by rank, because margins crowd near zero."""

from markupsafe import Markup

from ttm_jax.matching.chance import group_match
from ttm_jax.report.decisions import Decisions, decisions
from ttm_jax.report.margins import calibration, common_edges, margin_bins, threshold_points
from ttm_jax.report.page.svg_chart import Series, histogram, line_chart
from ttm_jax.report.run_data import SeedRun

_WHEN = ("before", "after")


def margin_charts(run: SeedRun) -> list[Markup]:
    """Before and after, of one seed: how right the most certain are, histograms, calibration."""
    before, after = decisions(run, 0), decisions(run, run.last)
    kind, units = ("similarity", "images") if run.is_global else ("margin", "groups")
    edges = common_edges(before.confidence, after.confidence)
    names = ("right", "wrong") if before.right is not None else None
    bins = [margin_bins(d.confidence, d.right, edges) for d in (before, after)]
    top = max(b.count for part in bins for b in part)
    histograms = [
        histogram(
            f"{'Similarities' if run.is_global else 'Margins'} {when}",
            (kind, units),
            [(b.low, b.high, b.right, b.wrong) for b in part],
            names,
            top,
        )
        for when, part in zip(("of the unadapted model", "of the adapted model"), bins, strict=True)
    ]
    if before.right is None:
        return histograms
    return [_rank_chart(run, before, after), _calibration_chart(run, before, after), *histograms]


def _rank_chart(run: SeedRun, before: Decisions, after: Decisions) -> Markup:
    """The paper's Figure 2 by rank: how many of those that a threshold selects are right?"""
    kind, units = ("similarity", "images") if run.is_global else ("margin", "groups")
    lines = []
    for colour, (when, found) in enumerate(zip(_WHEN, (before, after), strict=True)):
        points = threshold_points(found.confidence, found.unique, found.right)[::-1]
        known = [(p.coverage, p.precision, p.tau) for p in points if p.precision is not None]
        said = tuple(
            f"{share:.2f} % have a {kind} of at least {tau:.2f}, {right:.2f} % of them are right"
            for share, right, tau in known
        )
        lines.append(Series(when, tuple((x, y) for x, y, _ in known), colour, said=said))
    return line_chart(
        f"Right among the most certain {units}", f"percent of the {units}, "
        "most certain first", "percent right", [*lines, chance_level(run, 5)], y_range=(0, 100),
    )  # fmt: skip


def _calibration_chart(run: SeedRun, before: Decisions, after: Decisions) -> Markup:
    kind, units = ("similarity", "images") if run.is_global else ("margin", "groups")
    lines = []
    for colour, (when, found) in enumerate(zip(_WHEN, (before, after), strict=True)):
        assert found.right is not None
        bins = calibration(found.confidence, found.right)
        apart = 0.8 * (2 * colour - 1)  # two intervals side by side, not one on the other
        said = tuple(
            f"mean {kind} {b.margin:.2f}, {b.right:.2f} % of {b.count} right" for b in bins
        )
        points = tuple((b.rank + apart, b.right) for b in bins)
        intervals = tuple((b.low, b.high) for b in bins)
        lines.append(Series(when, points, colour, bars=intervals, said=said))
    return line_chart(
        f"Is a larger {kind} more often right?", f"rank of the {units} by {kind}, 100 the largest",
        "percent right", [*lines, chance_level(run, 5)], y_range=(0, 100),
    )  # fmt: skip


def chance(run: SeedRun) -> float:
    """Percent; without labels that of the groups' shapes, for estimates to be compared with."""
    if run.has_truth:
        return run.rows[0]["metrics"][run.main_metric]["chance"]
    levels = [
        (count, group_match(*map(int, shape.split("x")))) for shape, count in run.shapes.items()
    ]
    return 100 * sum(count * level for count, level in levels) / sum(run.shapes.values())


def chance_level(run: SeedRun, colour: int) -> Series:
    return Series("chance", ((0, chance(run)),), colour, "level")
