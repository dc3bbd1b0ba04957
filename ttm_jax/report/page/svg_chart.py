"""Small charts as SVG: colours come from the page's style sheet, so they follow its theme.

Series differ in colour, dash and marker, never in colour alone. Points carry a <title>, which
browsers show on hovering and screen readers can read. This module computes positions and texts;
`templates/chart.html` turns them into elements.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from ttm_jax.report.page.markup import render

WIDTH, HEIGHT = 380, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, WIDTH - 12, 10, HEIGHT - 40
_MOST_DOTS = 40  # a longer line has no markers
_SMALLEST_SPAN = 1e-12  # relative to the numbers; a smaller range is drawn as if it were flat

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
    said: tuple[str, ...] = ()
    """What hovering over each point says; by default its numbers."""


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


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


def widen(low: Number, high: Number) -> tuple[Number, Number]:
    """The range itself, or one around it if it is too small to be divided."""
    largest = max(abs(low), abs(high))
    if high - low > max(largest * _SMALLEST_SPAN, 1e-300):
        return low, high
    pad = largest * 0.1 if largest > 1e-290 else 1.0
    return low - pad, high + pad


def nice_ticks(low: Number, high: Number, wanted: int = 5) -> list[float]:
    """Round numbers that cover the range, about as many as wanted."""
    low, high = widen(low, high)
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def whole_ticks(low: Number, high: Number, wanted: int = 6) -> list[float]:
    """Whole numbers: both ends of the range, and round ones between that leave them room."""
    first, last = math.floor(low), math.ceil(high)
    last = max(last, first + 1)
    rough = max(1, -(-(last - first) // wanted))
    power = 10 ** (len(str(rough)) - 1)
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough)
    between = range(-(-first // step) * step, last, step)
    room = 0.6 * step
    kept = [tick for tick in between if tick - first >= room and last - tick >= room]
    return [float(tick) for tick in (first, *kept, last)]


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    y_range: Point | None = None,
    whole_x: bool = False,
) -> Markup:
    """A <figure> with its legend; empty if there is nothing to draw."""
    series = [s for s in series if s.points]
    drawn = [s for s in series if s.style != "level"]
    if not drawn:
        return Markup()
    xs = [x for s in drawn for x, _ in s.points]
    ys = [y for s in series for _, y in s.points] + [v for s in series for b in s.bars for v in b]
    x_ticks = (whole_ticks if whole_x else nice_ticks)(min(xs), max(xs))
    x = Scale(*widen(x_ticks[0], x_ticks[-1]), _LEFT, _RIGHT)
    y_ticks = nice_ticks(*(y_range or (min(ys), max(ys))))
    y = Scale(y_ticks[0], y_ticks[-1], _BOTTOM, _TOP)
    behind = [s for s in series if s.style == "thin"]
    marks = [
        m for s in (*behind, *(s for s in series if s.style != "thin")) for m in _line(s, x, y)
    ]
    legend = [_key(s.name, s.colour, s.style) for s in series if s.style != "thin"]
    legend = legend if len(legend) > 1 else []  # the title says what a single line is
    ticks = (_ticks(x, x_ticks), _ticks(y, y_ticks))
    return _figure(title, _describe(title, drawn), (x_label, y_label), ticks, marks, legend)


def histogram(
    title: str,
    labels: tuple[str, str],
    bars: Sequence[tuple[Number, Number, int, int]],
    names: tuple[str, str] | None,
    top: int,
) -> Markup:
    """Stacked bars: (low, high, lower part, upper part); `names` None: one part only."""
    if not bars:
        return Markup()
    x_ticks = nice_ticks(bars[0][0], bars[-1][1])
    x = Scale(*widen(x_ticks[0], x_ticks[-1]), _LEFT, _RIGHT)
    y_ticks = nice_ticks(0, max(top, 1), 4)
    y = Scale(y_ticks[0], y_ticks[-1], _BOTTOM, _TOP)
    marks = [mark for bar in bars for mark in _bar(*bar, names, x, y)]
    total = sum(bar[2] + bar[3] for bar in bars)
    return _figure(
        title, f"{title}: histogram of {total} {labels[1]}", labels,
        (_ticks(x, x_ticks), _ticks(y, y_ticks)), marks,
        [_key(name, colour, "bar") for colour, name in enumerate(names or ())],
    )  # fmt: skip


def _bar(
    low: Number, high: Number, lower: int, upper: int, names: tuple[str, str] | None,
    x: Scale, y: Scale,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    said = f"{_short(low)} to {_short(high)}: "
    said += f"{lower} {names[0]}, {upper} {names[1]}" if names else f"{lower}"
    left, width = x(low), max(x(high) - x(low) - 1, 0.5)
    for base, count, colour in ((0, lower, 0), (lower, upper, 1)):
        if count:
            y0, y1 = y(base), y(base + count)
            yield {
                "kind": "bar", "colour": colour, "x": left, "y": y1, "width": f"{width:.2f}",
                "height": f"{y0 - y1:.2f}", "said": said,
            }  # fmt: skip


def _line(series: Series, x: Scale, y: Scale) -> Iterator[dict[str, Any]]:
    where = [(x(a), y(b)) for a, b in series.points]
    colour = series.colour
    if series.style == "level":
        yield {"kind": "level", "colour": colour, "y": where[0][1]}
        return
    path = "M" + "L".join(f"{a} {b}" for a, b in where)
    yield {"kind": "line", "colour": colour, "path": path, "thin": series.style == "thin"}
    for (a, _), (low, high) in zip(series.points, series.bars, strict=False):
        yield {"kind": "interval", "colour": colour, "x": x(a), "low": y(low), "high": y(high)}
    if series.style == "line" and len(series.points) <= _MOST_DOTS:
        texts = series.said or tuple(f"{_short(a)}, {_short(b)}" for a, b in series.points)
        for text, (left, top) in zip(texts, where, strict=True):
            said = f"{series.name}: {text}"
            yield {
                "kind": "dot",
                "colour": colour,
                "path": _marker(colour, left, top),
                "said": said,
            }


def _marker(colour: int, x: Number, y: Number) -> str:
    """Circle, square, triangle or diamond."""
    shapes = (
        f"M{x - 3} {y}a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
        f"M{x - 2.7} {y - 2.7}h5.4v5.4h-5.4z",
        f"M{x} {y - 3.6}l3.6 6.2h-7.2z",
        f"M{x} {y - 3.8}l3.8 3.8l-3.8 3.8l-3.8-3.8z",
    )
    return shapes[colour % len(shapes)]


def _key(name: str, colour: int, style: str) -> dict[str, Any]:
    return {"name": name, "colour": colour, "style": style, "marker": _marker(colour, 13, 5)}


def _figure(
    title: str,
    said: str,
    labels: tuple[str, str],
    ticks: tuple[list[Tick], list[Tick]],
    marks: Sequence[dict[str, Any]],
    legend: Sequence[dict[str, Any]],
) -> Markup:
    return render(
        "chart.html",
        title=title,
        said=said,
        x_label=labels[0],
        y_label=labels[1],
        x_ticks=ticks[0],
        y_ticks=ticks[1],
        marks=marks,
        legend=legend,
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        right=_RIGHT,
        top=_TOP,
        bottom=_BOTTOM,
    )


def _short(value: Number) -> str:
    """Two decimals; what they cannot show has three digits."""
    if value and not 0.01 <= abs(value) < 1e6 and value != round(value):
        return f"{value:.3g}"
    return f"{value:.2f}".removesuffix(".00") if abs(value) < 1e6 else f"{value:.3g}"


def _describe(title: str, series: Sequence[Series]) -> str:
    """One sentence for people who cannot see the chart."""
    said = [
        f"{s.name} from {_short(s.points[0][1])} to {_short(s.points[-1][1])}"
        for s in series
        if s.style != "thin"
    ]
    return f"{title}: {'; '.join(said)}"


def _ticks(scale: Scale, ticks: list[float]) -> list[Tick]:
    return [Tick(scale(at), text) for at, text in zip(ticks, _tick_texts(ticks), strict=True)]


def _tick_texts(ticks: list[float]) -> list[str]:
    step = abs(ticks[1] - ticks[0]) if len(ticks) > 1 else 1.0
    largest = max(abs(tick) for tick in ticks) if ticks else 0.0
    if largest and (largest >= 1e5 or step < 1e-3):
        return ["0" if abs(t) < step * 1e-6 else f"{t:.1e}".replace("e-0", "e-") for t in ticks]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += step * 10**digits != round(step * 10**digits)
    return [f"{tick:.{digits}f}" for tick in ticks]
