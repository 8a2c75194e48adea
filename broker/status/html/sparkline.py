"""A sparkline: the last minutes of one measure, as a small picture that says in words what it shows."""

from __future__ import annotations

from broker.status.html.markup import NOTHING, Html, element
from broker.status.html.numbers import duration, rate
from broker.status.model import Series

WIDTH, HEIGHT = 240, 48
MARGIN = 2
"""Of the line, which has a width."""
SHORTEST = 24
"""Samples that the picture has room for at least: two minutes, so that a young broker does not look busy."""


def sparkline(series: Series) -> Html:
    """Draw a series; the newest value is at the right."""
    values = series.values
    if len(values) < 2:
        return element("svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="spark", aria_hidden="true")
    top = max(values)
    step = WIDTH / (max(len(values), SHORTEST) - 1)
    first = WIDTH - step * (len(values) - 1)
    points = [
        (first + step * number, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (value / top if top else 0))
        for number, value in enumerate(values)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{first:.1f},{HEIGHT} {line} {WIDTH},{HEIGHT}"
    return element(
        "svg",
        element("title", described(series)),
        element("polygon", NOTHING, points=area, class_="spark-area"),
        element("polyline", NOTHING, points=line, class_="spark-line", vector_effect="non-scaling-stroke"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        class_="spark",
        role="img",
        aria_label=described(series),
    )


def described(series: Series) -> str:
    """Say what the picture shows."""
    values = series.values
    if not values:
        return f"{series.name}: not measured yet"
    minutes = duration(len(values) * series.interval_seconds)
    low, high, now = (rate(value, series.unit) for value in (min(values), max(values), values[-1]))
    return f"{series.name} over the last {minutes}: now {now}, between {low} and {high}"
