"""What a broker exports, by metric and labels, as a scrape finds it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.harness.broker import BrokerProcess

Labels = frozenset[tuple[str, str]]


def scrape(broker: BrokerProcess) -> dict[str, dict[Labels, float]]:
    """Give all samples by name and labels; no series may be there twice."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(broker.http_get("/metrics")):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = frozenset(sample.labels.items())
            assert labels not in series, sample
            series[labels] = sample.value
    return found
