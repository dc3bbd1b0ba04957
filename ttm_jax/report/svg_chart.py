"""Small charts as SVG text: colours come from the page's style sheet, so they follow its theme.

Series differ in colour, dash and marker, never in colour alone. Points carry a <title>, which
browsers show on hovering and screen readers can read.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

WIDTH, HEIGHT = 380, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 10, 40
_MOST_DOTS = 40  # a longer line has no markers

Number = float | int
Point = tuple[Number, Number]


@dataclass(frozen=True)
class Series:
    """A line. `colour` counts in the palette; "thin" is for single seeds behind their mean."""

    name: str
    points: tuple[Point, ...]
    colour: int
    style: Literal["line", "thin", "level"] = "line"
    bars: tuple[Point, ...] = ()
    """Low and high end of an interval at each point."""


@dataclass(frozen=True)
class Scale:
    """From values to positions."""

    low: Number
    high: Number
    start: Number
    end: Number

    def __call__(self, value: Number) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)


def nice_ticks(low: Number, high: Number, wanted: int = 5) -> list[float]:
    """Round numbers that cover the range, about as many as wanted."""
    if not high > low:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    y_range: Point | None = None,
    whole_x: bool = False,
) -> str:
    """A <figure> with its legend; empty if there is nothing to draw."""
    series = [s for s in series if s.points]
    drawn = [s for s in series if s.style != "level"]
    if not drawn:
        return ""
    xs = [x for s in drawn for x, _ in s.points]
    ys = [y for s in series for _, y in s.points] + [v for s in series for b in s.bars for v in b]
    low, high = (min(xs), max(xs)) if max(xs) > min(xs) else (xs[0] - 0.5, xs[0] + 0.5)
    x = Scale(low, high, _LEFT, WIDTH - _RIGHT)
    x_ticks = [tick for tick in nice_ticks(low, high, 6 if whole_x else 5)
               if low - 1e-12 <= tick <= high + 1e-12 and not (whole_x and tick % 1)]  # fmt: skip
    y_ticks = nice_ticks(*(y_range or (min(ys), max(ys))))
    y = Scale(y_ticks[0], y_ticks[-1], HEIGHT - _BOTTOM, _TOP)
    parts = [_axes(x, y, x_ticks, y_ticks, x_label, y_label)]
    for thin in (True, False):  # single seeds lie behind
        parts += [_line(s, x, y) for s in series if (s.style == "thin") == thin]
    legend = [(s.name, s.colour, s.style) for s in series if s.style != "thin"]
    return _figure(title, _describe(title, drawn), "".join(parts), legend)


def histogram(
    title: str,
    x_label: str,
    bars: Sequence[tuple[Number, Number, int, int]],
    names: tuple[str, str] | None,
    top: int,
) -> str:
    """Stacked bars: (low, high, lower part, upper part); `names` None: one part only."""
    if not bars:
        return ""
    x = Scale(bars[0][0], bars[-1][1], _LEFT, WIDTH - _RIGHT)
    y_ticks = nice_ticks(0, max(top, 1), 4)
    y = Scale(y_ticks[0], y_ticks[-1], HEIGHT - _BOTTOM, _TOP)
    ticks = [t for t in nice_ticks(x.low, x.high) if x.low - 1e-12 <= t <= x.high + 1e-12]
    parts = [_axes(x, y, ticks, y_ticks, x_label, "units")]
    for low, high, lower, upper in bars:
        said = f"{low:.3g} to {high:.3g}: "
        said += f"{lower} {names[0]}, {upper} {names[1]}" if names else f"{lower}"
        left, width = x(low), max(x(high) - x(low) - 1, 0.5)
        for base, count, colour in ((0, lower, 0), (lower, upper, 1)):
            if count:
                y0, y1 = y(base), y(base + count)
                parts.append(
                    f'<rect class="f{colour}" x="{left}" y="{y1}" width="{width:.2f}" '
                    f'height="{y0 - y1:.2f}"><title>{escape(said)}</title></rect>'
                )
    total = sum(bar[2] + bar[3] for bar in bars)
    legend = [(name, colour, "bar") for colour, name in enumerate(names or ())]
    return _figure(title, f"{title}: histogram of {total} units", "".join(parts), legend)


def _axes(
    x: Scale, y: Scale, x_ticks: list[float], y_ticks: list[float], x_label: str, y_label: str
) -> str:
    parts = ['<g class="axes">']
    for tick, text in zip(y_ticks, _tick_texts(y_ticks), strict=True):
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(tick)}" y2="{y(tick)}"/>'
            f'<text x="{_LEFT - 6}" y="{y(tick) + 4}" text-anchor="end">{text}</text>'
        )
    for tick, text in zip(x_ticks, _tick_texts(x_ticks), strict=True):
        parts.append(
            f'<text x="{x(tick)}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{text}</text>'
        )
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
        f'<text transform="translate(12 {(HEIGHT - _BOTTOM + _TOP) / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text></g>'
    )
    return "".join(parts)


def _line(series: Series, x: Scale, y: Scale) -> str:
    where = [(x(a), y(b)) for a, b in series.points]
    if series.style == "level":
        level = where[0][1]
        return (
            f'<line class="level s{series.colour}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" '
            f'y1="{level}" y2="{level}"/>'
        )
    path = "M" + "L".join(f"{a} {b}" for a, b in where)
    kind = " thin" if series.style == "thin" else ""
    parts = [f'<path class="line s{series.colour}{kind}" d="{path}"/>']
    for (a, _), (low, high) in zip(series.points, series.bars, strict=False):
        parts.append(
            f'<line class="interval s{series.colour}" x1="{x(a)}" x2="{x(a)}" '
            f'y1="{y(low)}" y2="{y(high)}"/>'
        )
    if series.style == "line" and len(series.points) <= _MOST_DOTS:
        for a, b in series.points:
            said = escape(f"{series.name}: {a:.4g}, {b:.4g}")
            mark = _marker(series.colour, x(a), y(b))
            parts.append(
                f'<path class="dot f{series.colour}" d="{mark}"><title>{said}</title></path>'
            )
    return "".join(parts)


def _marker(colour: int, x: Number, y: Number) -> str:
    """Circle, square, triangle or diamond."""
    shapes = (
        f"M{x - 3} {y}a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
        f"M{x - 2.7} {y - 2.7}h5.4v5.4h-5.4z",
        f"M{x} {y - 3.6}l3.6 6.2h-7.2z",
        f"M{x} {y - 3.8}l3.8 3.8l-3.8 3.8l-3.8-3.8z",
    )
    return shapes[colour % len(shapes)]


def _figure(title: str, said: str, content: str, legend: Sequence[tuple[str, int, str]]) -> str:
    keys = "".join(
        f'<li><svg class="key" viewBox="0 0 26 10" aria-hidden="true">{_sample(colour, style)}'
        f"</svg>{escape(name)}</li>"
        for name, colour, style in legend
    )
    keys = f'<ul class="legend">{keys}</ul>' if keys else ""
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(said)}">'
        f"{content}</svg>{keys}</figure>"
    )


def _sample(colour: int, style: str) -> str:
    if style == "bar":
        return f'<rect class="f{colour}" x="6" width="14" height="10"/>'
    kind = "level" if style == "level" else "line"
    line = f'<path class="{kind} s{colour}" d="M0 5H26"/>'
    dot = f'<path class="dot f{colour}" d="{_marker(colour, 13, 5)}"/>' if style == "line" else ""
    return line + dot


def _describe(title: str, series: Sequence[Series]) -> str:
    """One sentence for people who cannot see the chart."""
    said = [
        f"{s.name} from {s.points[0][1]:.4g} to {s.points[-1][1]:.4g}"
        for s in series
        if s.style != "thin"
    ]
    return f"{title}: {'; '.join(said)}"


def _tick_texts(ticks: list[float]) -> list[str]:
    step = abs(ticks[1] - ticks[0]) if len(ticks) > 1 else 1.0
    largest = max(abs(tick) for tick in ticks) if ticks else 0.0
    if largest and (largest >= 1e5 or step < 1e-3):
        return ["0" if abs(t) < step * 1e-6 else f"{t:.1e}".replace("e-0", "e-") for t in ticks]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += step * 10**digits != round(step * 10**digits)
    return [f"{tick:.{digits}f}" for tick in ticks]
