"""The tables of `ttm evaluate`: every number with its meaning, chance level and interval."""

import math

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ttm_jax.matching.coverage_curve import CoveragePoint
from ttm_jax.matching.match import GlobalMatching, GroupMatching
from ttm_jax.matching.metric_names import METRICS
from ttm_jax.matching.rate_interval import Rate, error_reduction, relative_gain
from ttm_jax.plain_text import rich_text

# Where the paper begins (Sec. 4.6).
_FIRST_COVERAGE = (15.0, 30.0)


def metric_table(rates: dict[str, Rate], shape: tuple[int, int], title: str = "Metrics") -> Table:
    """One line a metric."""
    table = _table(title, "chance: what random scores would get; interval: Wilson's, 95 %.")
    table.add_column("metric, and when it counts")  # the one that may break: numbers must not
    for name in ("right", "percent", "interval", "chance"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, rate in rates.items():
        metric = METRICS[name]
        low, high = rate.interval()
        table.add_row(
            Text.assemble((metric.label, "bold"), "\n", (f"  {metric.meaning_for(shape)}", "dim")),
            f"{rate.count}/{rate.of}",
            Text(f"{rate.percent:.2f}", style=_style(rate)),
            f"{low:.1f} - {high:.1f}",
            f"{rate.chance_percent:.2f}",
        )
    return table


_GROUNDING = {
    "real": "with the group's own images",
    "unrelated": "with images of other groups (decoys)",
    "without_prior": "own images, the captions' prior subtracted",
}


def grounding_table(rates: dict[str, Rate]) -> Table:
    """Does the model look at the images, or do some captions merely sound true?"""
    table = _table("GroupMatch", "decoys repeat each group: their interval is too narrow.")
    table.add_column("")
    for name in ("right", "percent", "interval", "chance"):
        table.add_column(name, justify="right", no_wrap=True)
    for key, rate in rates.items():
        low, high = rate.interval()
        table.add_row(
            _GROUNDING[key],
            f"{rate.count}/{rate.of}",
            f"{rate.percent:.2f}",
            f"{low:.1f} - {high:.1f}",
            f"{rate.chance_percent:.2f}",
        )
    return table


def _style(rate: Rate) -> str:
    """Green: surely above chance; red: surely below; plain: chance explains it."""
    low, high = rate.interval()
    return "green" if low > rate.chance_percent else "red" if high < rate.chance_percent else ""


def simple_match_text(
    raw: Rate, matched: Rate, matching: GroupMatching, shape: tuple[int, int]
) -> Text:
    """What SimpleMatch makes of the same scores (paper, Sec. 3.1)."""
    if 1 in shape:
        parts: list[str | tuple[str, str]] = [
            ("SimpleMatch", "bold"),
            " changes nothing here: with one image or one caption both metrics are the same.",
        ]
    else:
        gain = relative_gain(raw.percent, matched.percent)
        fewer = error_reduction(raw.percent, matched.percent)
        parts = [
            ("SimpleMatch", "bold"),
            " takes the matching that fits the group best as a whole.\n",
            f"GroupScore {raw.percent:.2f} becomes ",
            (f"{matched.percent:.2f}", "bold green" if matched.count > raw.count else "bold"),
            f": {matched.percent - raw.percent:+.2f} points",
            f", {gain:+.1f} % relative" if math.isfinite(gain) else "",
            f", {fewer:.1f} % of the errors gone." if fewer > 0 else ".",
        ]
    tied = int((~matching.unique).sum())
    if tied:
        have = "group is tied and counts" if tied == 1 else "groups are tied and count"
        parts.append(f"\n{tied} {have} as wrong: there is no best matching.")
    return Text.assemble(*parts)


def tag_table(by_tag: dict[str, dict[str, Rate]]) -> Table:
    """One line per tag, percentages."""
    table = _table("By tag, percent")
    table.add_column("tag")
    table.add_column("groups", justify="right")
    for name in next(iter(by_tag.values())):
        table.add_column(METRICS[name].label.replace(" ", "\n"), justify="right", no_wrap=True)
    for tag, rates in by_tag.items():
        percents = [f"{rate.percent:.2f}" for rate in rates.values()]
        table.add_row(rich_text(tag), str(rates["group_match"].of), *percents)
    return table


def coverage_table(points: list[CoveragePoint], unit: str) -> Table:
    """What each threshold would select; `unit` is what is selected: groups or pairs."""
    by_margin = unit == "groups"
    table = _table(
        "What a threshold selects",
        "selected: margin >= tau; the paper starts with 15 to 30 %."
        if by_margin
        else "selected: the share 1 - tau, most similar first; the paper starts with about 50 %.",
    )
    for name in ("tau", f"{unit} selected", "coverage %", "of those right %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    decimals = _decimals([point.tau for point in points])
    low, high = _FIRST_COVERAGE
    for point in points:
        start = by_margin and low <= point.coverage_percent <= high
        table.add_row(
            f"{point.tau:.{decimals}f}",
            f"{point.selected}/{point.of}",
            f"{point.coverage_percent:.1f}",
            "unknown" if point.right is None else _percent_or_dash(point.precision_percent),
            Text("a start for tau_1", style="dim") if start else "",
        )
    return table


def _decimals(taus: list[float]) -> int:
    """Digits after the point that show the largest tau to about four places."""
    top = max((abs(tau) for tau in taus if math.isfinite(tau)), default=0.0)
    return 3 if top == 0 else max(0, 3 - math.floor(math.log10(top)))


def matching_summary(matching: GroupMatching | GlobalMatching) -> Text:
    """Matchings and margins alone: all there is when the truth is unknown."""
    if isinstance(matching, GroupMatching):
        values, name, unit = matching.margin[matching.unique], "margin", "groups"
    else:
        values, name, unit = matching.similarity[matching.unique], "similarity", "pairs"
    lines = [f"{len(values)} of {len(matching.unique)} {unit} have one best matching."]
    if len(values):
        ordered = sorted(values.tolist())
        middle = ordered[len(ordered) // 2]
        lines.append(
            f"{name}: lowest {ordered[0]:.4g}, median {middle:.4g}, highest {ordered[-1]:.4g}."
        )
    lines.append("The truth is unknown, so nothing is said about what is right.")
    return Text("\n".join(lines))


def _percent_or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(title: str, caption: str = "") -> Table:
    return Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        header_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
