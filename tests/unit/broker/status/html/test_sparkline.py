"""Small pictures, and the words for them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from broker.status.html.sparkline import HEIGHT, MARGIN, SHORTEST, WIDTH, described, sparkline
from broker.status.model import Series


def points(series: Series) -> list[tuple[float, float]]:
    line = ElementTree.fromstring(sparkline(series)).find("polyline")
    assert line is not None
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_the_newest_value_is_at_the_right_and_the_largest_on_top() -> None:
    values = tuple(float(number) for number in range(SHORTEST))
    drawn = points(Series("Bytes in", "B", values, 5))
    assert drawn[0] == (0, HEIGHT - MARGIN)
    assert drawn[-1] == (WIDTH, MARGIN)


def test_a_young_series_takes_only_its_part_of_the_width() -> None:
    drawn = points(Series("Bytes in", "B", (1.0, 2.0), 5))
    assert drawn[0][0] > 0.9 * WIDTH
    assert drawn[-1][0] == WIDTH


def test_nothing_at_all_is_a_flat_line() -> None:
    assert {y for _, y in points(Series("Bytes in", "B", (0.0, 0.0, 0.0), 5))} == {HEIGHT - MARGIN}


def test_before_two_samples_there_is_nothing_to_see_or_to_say() -> None:
    for values in ((), (1.0,)):
        picture = ElementTree.fromstring(sparkline(Series("Bytes in", "B", values, 5)))
        assert picture.attrib["aria-hidden"] == "true"
        assert not list(picture)


def test_words_say_what_is_seen() -> None:
    series = Series("Bytes in", "B", (0.0, 2048.0, 1024.0), 5)
    text = "Bytes in over the last 15 s: now 1.00 KiB/s, between 0 B/s and 2.00 KiB/s"
    assert described(series).replace("\u00a0", " ") == text
    assert re.search(r'role="img" aria-label="Bytes in over the last', sparkline(series))
    assert described(Series("Bytes in", "B", (), 5)) == "Bytes in: not measured yet"
