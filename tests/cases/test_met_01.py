"""MET-01: the exposition format, its labels, and what is counted, before, under and after load."""

from __future__ import annotations

import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.prometheus_server import promtool
from tests.harness.quotas import set_quota
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.skipif(reference_wanted(), reason="scrapes the HTTP page")

TOPICS = ("a.b", "a-b_c")
CLIENT_IDS = ('quo"te', "back\\slash", "new\nline")
GOOD, TOO_LARGE, OUT_OF_RANGE = 100, 10, 5
PARTITIONS = 1_000
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
COUNTING = ("_total", "_bucket", "_count", "_sum")

Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


class Page:
    """One scrape, parsed: every name has one TYPE, and no series is there twice."""

    def __init__(self, text: str, parse: Callable[[str], Any] = parse_plain) -> None:
        self.series: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self.counters: set[str] = set()
        types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
        assert len(types) == len(set(types))
        for family in parse(text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self.series, sample
                self.series[key] = sample.value
                if family.type in ("counter", "histogram", "summary") and sample.name.endswith(COUNTING):
                    self.counters.add(sample.name)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a series, 0 where there is none."""
        return self.series.get((name, frozenset(labels.items())), 0.0)

    def with_label(self, name: str, value: str) -> set[str]:
        """Name the metrics that have a series with such a label."""
        return {metric for metric, labels in self.series if (name, value) in labels}


def check_only_grown(before: Page, after: Page) -> None:
    """Hold every counter against an earlier scrape."""
    fallen = {
        key: (value, after.series.get(key))
        for key, value in before.series.items()
        if key[0] in before.counters and after.series.get(key, -1.0) < value
    }
    assert not fallen


@pytest.fixture
def scrape(broker: BrokerProcess) -> Iterator[Callable[[], Page]]:
    """Scrape, and see to it that nothing has fallen since the last time."""
    pages: list[Page] = []

    def take() -> Page:
        page = Page(broker.http_get("/metrics"))
        if pages:
            check_only_grown(pages[-1], page)
        pages.append(page)
        return page

    yield take


def load(broker: BrokerProcess) -> None:
    """Do what the case asks for, each client under a name that has to be escaped."""
    small, large = batches.simple("x"), batches.build([Record(bytes(5_000))])
    for client_id in CLIENT_IDS:
        with RawClient(address(broker), client_id=client_id) as client:
            for _ in range(GOOD // 2):
                client.append(TOPICS[0], small)
    with RawClient(address(broker)) as client:
        for _ in range(GOOD):
            client.append(TOPICS[1], small)
        for _ in range(TOO_LARGE):
            assert client.produce(TOPICS[1], large).error_code == 10
        for _ in range(OUT_OF_RANGE):
            assert client.fetch(TOPICS[1], 10_000).error_code == 1
        assert len(batches.parse(client.fetch_all(TOPICS[1]))) == GOOD


def test_met_01_format_labels_and_counting(broker: BrokerProcess, scrape: Callable[[], Page]) -> None:
    with RawClient(address(broker)) as client:
        for topic in TOPICS:
            client.create_topic(topic, **{"max.message.bytes": "1000"})
        set_quota(client, {"client-id": None}, producer_byte_rate=1e9)
    before = scrape()
    running = threading.Thread(target=load, args=(broker,))
    running.start()
    while running.is_alive():
        scrape()
    running.join()
    after = scrape()

    def grown(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    of_topic = "kafka_server_brokertopicmetrics"
    assert grown(f"{of_topic}_messagesin_total", topic=TOPICS[1]) == GOOD
    assert grown(f"{of_topic}_messagesin_total", topic=TOPICS[0]) == len(CLIENT_IDS) * (GOOD // 2)
    assert grown(f"{of_topic}_messagesin_total") >= GOOD * 2.5
    size = len(batches.simple("x"))
    assert grown(f"{of_topic}_bytesin_total", topic=TOPICS[1]) == GOOD * size
    assert grown(f"{of_topic}_bytesout_total", topic=TOPICS[1]) == GOOD * size
    assert grown(f"{of_topic}_bytesrejected_total", topic=TOPICS[1]) > TOO_LARGE * 5_000
    assert grown(f"{of_topic}_totalproducerequests_total", topic=TOPICS[1]) == GOOD + TOO_LARGE
    assert grown("odradek_network_errors_total", request="produce", error="MESSAGE_TOO_LARGE") == TOO_LARGE
    assert grown("odradek_network_errors_total", request="fetch", error="OFFSET_OUT_OF_RANGE") == OUT_OF_RANGE
    assert grown("kafka_network_requestmetrics_errors_total", request="Produce", error="MESSAGE_TOO_LARGE") == TOO_LARGE
    assert grown("odradek_network_request_seconds_count", request="produce") == GOOD * 2.5 + TOO_LARGE
    for client_id in CLIENT_IDS:
        assert "odradek_quota_level" in after.with_label("client_id", client_id)


def test_met_01_series_of_what_is_deleted_vanish_and_begin_anew(
    broker: BrokerProcess, scrape: Callable[[], Page]
) -> None:
    name, of_all = "kafka_server_brokertopicmetrics_messagesin_total", 0.0
    for _ in range(2):
        with RawClient(address(broker)) as client:
            client.create_topic("short-lived", partitions=2)
            client.append("short-lived", batches.simple("x"))
            page = Page(broker.http_get("/metrics"))
            assert page.value(name, topic="short-lived") == 1
            assert page.value(name) > of_all
            of_all = page.value(name)
            client.delete_topic("short-lived")
        eventually(lambda: not Page(broker.http_get("/metrics")).with_label("topic", "short-lived"))
        assert Page(broker.http_get("/metrics")).value(name) >= of_all, "the sum keeps what was counted"


def test_met_01_openmetrics_and_promtool_accept_the_page(broker: BrokerProcess) -> None:
    request = urllib.request.Request(
        f"http://{broker.host}:{broker.http_port}/metrics", headers={"Accept": OPENMETRICS}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        page = Page(answer.read().decode(), parse_openmetrics)
    assert page.value("kafka_server_kafkaserver_brokerstate") == 3
    found = promtool("check", "metrics", stdin=broker.http_get("/metrics"), expected=(3,))
    assert not [line for line in found.splitlines() if not is_of_others(line)], found


def is_of_others(complaint: str) -> bool:
    """Tell whether promtool dislikes a name that Kafka's tools have chosen, not we."""
    return complaint.startswith("kafka_")


def test_met_01_scrapes_with_1000_partitions_are_quick_and_delay_nobody(broker: BrokerProcess) -> None:
    batch = batches.simple("x")

    def waits(client: RawClient, seconds: float) -> list[float]:
        found, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            client.append("many", batch)
            found.append(time.monotonic() - began)
        return found

    with RawClient(address(broker)) as client:
        client.create_topic("many", partitions=PARTITIONS)
        alone = waits(client, 1.0)
        took: list[float] = []
        has_to_end = threading.Event()

        def scrapes() -> None:
            while not has_to_end.wait(0.1):
                began = time.monotonic()
                broker.http_get("/metrics")
                took.append(time.monotonic() - began)

        scraping = threading.Thread(target=scrapes)
        scraping.start()
        beside = waits(client, 2.0)
        has_to_end.set()
        scraping.join()
    page = Page(broker.http_get("/metrics"))
    assert sum(name == "kafka_log_log_size" for name, _ in page.series) >= PARTITIONS
    assert statistics.median(took) < 1.0
    assert statistics.median(beside) < statistics.median(alone) + 0.005
    # What the machine does besides is in the clients' waits; this is what the broker itself has seen.
    assert page.value("odradek_metrics_scrape_longest_slice_seconds") < 0.1
