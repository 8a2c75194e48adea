"""A broker with everyday traffic and a Prometheus that watches it with our rules, one pair for the module's tests."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.prometheus_server import SCRAPE_INTERVAL_MS, Prometheus, tool
from tests.harness.quotas import set_quota
from tests.harness.raw import RawClient

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "docker" / "prometheus" / "alerts.yml"
KAFKA_NAMES = RULES.with_name("kafka_names.yml")
TOPIC, COMPACTED, PAID, QUIET, LATER, GROUP = "orders", "states", "payments", "quiet", "reminders", "billing"
PARTITIONS = 3
# So little that the disk's part of the work happens within seconds too.
PROPERTIES = {"odradek.log.writeback.window.bytes": "65536", "log.cleaner.backoff.ms": "500"}
ROUND_S = 0.02
DELAY_MS = 1_000
# Scrapes of running traffic until rates and quantiles are known.
SCRAPES = 8


class Observed(NamedTuple):
    """What is watched, and what watches it."""

    broker: BrokerProcess
    prometheus: Prometheus


def impatient(rules: Path, directory: Path) -> Path:
    """Copy rules without the time that a condition must hold: what is true is at once an alert that fires."""
    text, count = re.subn(r"^ +for: .*\n", "", rules.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert count
    copy = directory / f"impatient-{rules.name}"
    copy.write_text(text, encoding="utf-8")
    return copy


def prepare(broker: BrokerProcess) -> None:
    """Make the topics, and a quota that nobody exceeds."""
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic(TOPIC, PARTITIONS, **{"flush.messages": "10"})
        client.create_topic(COMPACTED, 1, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        client.create_topic(PAID)
        client.create_topic(QUIET)
        client.create_topic(LATER, **{"delivery.mode": "scheduled"})
        entity = {"user": "ANONYMOUS", "client-id": "shop"}
        set_quota(client, entity, producer_byte_rate=1e9, consumer_byte_rate=1e9, request_percentage=1e3)


class Traffic:
    """Two producers, one of them transactional, and two consumers, one of which waits: on one thread, until stopped."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._bootstrap = broker.bootstrap
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded)
        self._thread.start()

    def stop(self) -> None:
        """End it; whatever went wrong is raised."""
        self._stopping.set()
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as failure:
            self._failure = failure

    def _run(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, client_id="shop", linger_ms=0)
        payer = KafkaProducer(bootstrap_servers=self._bootstrap, transactional_id="payer")
        payer.init_transactions()
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self._bootstrap,
            group_id=GROUP,
            client_id="shop",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )
        waiting = KafkaConsumer(QUIET, bootstrap_servers=self._bootstrap)
        number = 0
        while not self._stopping.wait(ROUND_S):
            number += 1
            producer.send(TOPIC, bytes(2000), partition=number % PARTITIONS)
            producer.send(COMPACTED, b"state", key=b"%d" % (number % 3))
            producer.send(LATER, b"due", timestamp_ms=int(time.time() * 1000) + DELAY_MS)
            if number % 10 == 0:
                payer.begin_transaction()
                payer.send(PAID, b"paid")
                payer.commit_transaction()
            consumer.poll(timeout_ms=10)
            waiting.poll(timeout_ms=0)
            if number % 5 == 0:
                consumer.commit()
        producer.flush()
        for client in (producer, payer, consumer, waiting):
            client.close()


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Give a broker under traffic that Prometheus has seen often enough for rates."""
    if reference_wanted():
        pytest.skip("scrapes the HTTP page")
    tool("prometheus")
    directory = tmp_path_factory.mktemp("observed")
    broker = BrokerProcess(directory / "broker", PROPERTIES)
    prometheus = Prometheus(
        directory / "prometheus",
        [impatient(RULES, directory), KAFKA_NAMES],
        {"odradek": f"{broker.host}:{broker.http_port}"},
    )
    broker.start()
    try:
        prepare(broker)
        traffic = Traffic(broker)
        try:
            prometheus.start()
            scrapes = f'count_over_time(kafka_consumergroup_lag{{topic="{TOPIC}", partition="0"}}[1m])'
            prometheus.wait_until(
                lambda: any(one.value >= SCRAPES for one in prometheus.query(scrapes)),
                what=f"{SCRAPES} scrapes, one each {SCRAPE_INTERVAL_MS} ms",
            )
            yield Observed(broker, prometheus)
        finally:
            traffic.stop()
    finally:
        prometheus.stop()
        broker.close()
    assert not broker.trouble(), broker.trouble()
