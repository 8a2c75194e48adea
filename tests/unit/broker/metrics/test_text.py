"""Our text says what prometheus_client says of the same sources, in both formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest as plain_text
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from broker.metrics.catalog.row import Family, Kind, Metric
from broker.metrics.instruments import Histogram
from broker.metrics.sources import AnySource, HistogramSource, Source, Table
from broker.metrics.text import LINES_PER_PIECE, number, written
from config.views import MetricsConfig
from tests.harness.exported import ExportedParts
from tests.harness.prometheus import registry_of

CONFIG = MetricsConfig()
COUNTER = Metric(Family.ODRADEK, "c", Kind.COUNTER, 'A "help" with \\ and \n in it', ("a", "b"))
GAUGE = Metric(Family.JMX, "g", Kind.GAUGE, "Another", ("a", "b"))
OTHER = Metric(Family.KAFKA_EXPORTER, "h", Kind.GAUGE, "A third", ("a", "b"))
HISTOGRAM = Metric(Family.ODRADEK, "s", Kind.HISTOGRAM, "Seconds", ("a",))


def parsed(text: str, parse: Callable[[str], Any]) -> list[Any]:
    """Return all families with their samples, NaN made comparable."""
    return [
        (
            family.name,
            family.type,
            family.documentation,
            [(s.name, s.labels, repr(float(s.value))) for s in family.samples],
        )
        for family in parse(text)
    ]


def frozen(source: AnySource) -> AnySource:
    """Read a source once: some say something else each time."""
    metric, read = source
    values = list(read())
    return type(source)(metric, lambda: values)  # type: ignore[arg-type]


def check(sources: list[AnySource]) -> None:
    """Hold both formats against the library's."""
    sources = [frozen(source) for source in sources]
    registry = registry_of(sources, lambda: CONFIG)
    ours = "".join(written(sources, CONFIG, is_openmetrics=False))
    assert parsed(ours, parse_plain) == parsed(plain_text(registry).decode(), parse_plain)
    ours = "".join(written(sources, CONFIG, is_openmetrics=True)) + "# EOF\n"
    assert parsed(ours, parse_openmetrics) == parsed(openmetrics_text(registry).decode(), parse_openmetrics)


def test_all_that_a_broker_exports(exported: ExportedParts) -> None:
    exported.stats.of("fetch").latency.observe(0.3)
    check(list(exported.sources))


values = st.one_of(st.integers(-(2**63), 2**63), st.floats())
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8)


@given(st.dictionaries(st.tuples(texts, texts), st.tuples(values, st.none() | values), max_size=5))
@settings(max_examples=100, deadline=None)
def test_any_labels_and_any_numbers(rows: dict[tuple[str, str], tuple[float, float | None]]) -> None:
    lines = [*rows.items(), None]
    counted = [(labels, abs(numbers[0])) for labels, numbers in rows.items() if not math.isnan(numbers[0])]
    check([Source(COUNTER, lambda: [None, *counted]), Table((GAUGE, OTHER), lambda: lines)])


@given(st.lists(st.floats(0, 100), max_size=5))
@settings(max_examples=50, deadline=None)
def test_histograms(seconds: list[float]) -> None:
    histogram = Histogram()
    for observed in seconds:
        histogram.observe(observed)
    check([HistogramSource(HISTOGRAM, lambda: [(("x",), histogram), (('"',), Histogram((1.0,)))])])


def test_a_lone_surrogate_does_not_keep_the_page_from_being_written() -> None:
    text = "".join(written([Source(GAUGE, lambda: [(("\udc80", ""), 1)])], CONFIG, is_openmetrics=False))
    assert text.encode(errors="replace").endswith(b'g{a="?",b=""} 1\n')


@pytest.mark.parametrize("count", [0, 1, LINES_PER_PIECE, 10 * LINES_PER_PIECE + 1])
def test_no_piece_is_long(count: int) -> None:
    rows = [((str(index), ""), (index, index)) for index in range(count)]
    source = Source(COUNTER, lambda: [(labels, numbers[0]) for labels, numbers in rows])
    pieces = list(written([source, Table((GAUGE, OTHER), lambda: rows)], CONFIG, is_openmetrics=False))
    assert max(piece.count("\n") for piece in pieces) <= 10 * LINES_PER_PIECE
    assert "".join(pieces).count("{") == 3 * count


def test_where_a_walk_pauses_the_writing_does() -> None:
    taken = 0

    def lines() -> Iterator[Any]:
        nonlocal taken
        for _ in range(5):
            taken += 1
            yield None
        yield (("", ""), (1, 2))

    seen = [taken for _ in written([Table((GAUGE, OTHER), lines)], CONFIG, is_openmetrics=False)]
    assert seen[:5] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("families", "shown"), [(("jmx",), "g"), (("kafka_exporter",), "h"), (("jmx", "kafka_exporter"), "gh"), ((), "")]
)
def test_of_a_table_only_what_is_wanted_is_shown(families: tuple[str, ...], shown: str) -> None:
    table = Table((GAUGE, OTHER), lambda: [(("x", "y"), (1, 2))])
    text = "".join(written([table], MetricsConfig(families), is_openmetrics=False))
    assert [family.name for family in parse_plain(text)] == list(shown)


def test_numbers_keep_all_their_digits() -> None:
    assert [number(value) for value in (True, 2**53 + 1, 0.1, math.inf, -math.inf)] == [
        "1.0",
        "9007199254740993",
        "0.1",
        "+Inf",
        "-Inf",
    ]
