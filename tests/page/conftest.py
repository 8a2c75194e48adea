"""A browser, and a broker with traffic, for all tests of the status page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness import chromium
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.chromium import Chromium
from tests.harness.machine import program

HOSTILE_GROUP = "</a><script>document.title='hacked'</script>\"'&"
RECORDS = {"orders": 120, "payments.settled": 40, "clicks": 300}
SCHEDULED, HELD_BACK = "reminders", 5


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Give a browser; without Chromium the test is skipped, on CI it fails."""
    if reference_wanted():
        pytest.skip("Apache Kafka has no status page")
    executable = program("chromium", "chromium-browser", package="chromium")
    with chromium.chromium(executable, tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.fixture(scope="session")
def busy_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Give a broker with topics, records, and groups that have read some of them, one with a hostile name."""
    directory = tmp_path_factory.mktemp("page-broker")
    broker = BrokerProcess(directory, {"log.dirs": f"{directory}/d1,{directory}/d2"})
    broker.start()
    try:
        fill(broker)
        yield broker
    finally:
        broker.close()


def fill(broker: BrokerProcess) -> None:
    """Create the topics, write the records, and let groups have read a part of them: 30 each."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(name, 3, 1) for name in RECORDS]).values():
        created.result(10)
    scheduled = NewTopic(SCHEDULED, 2, 1, config={"delivery.mode": "scheduled"})
    admin.create_topics([scheduled])[SCHEDULED].result(10)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    in_an_hour_ms = int((time.time() + 3_600) * 1000)
    for number in range(HELD_BACK):
        producer.produce(SCHEDULED, value=b"due", partition=0, timestamp=in_an_hour_ms + number)
    for topic, count in RECORDS.items():
        for number in range(count):
            producer.produce(topic, value=b"x" * 100, partition=number % 3)
    assert producer.flush(10) == 0
    for group, topic in (("billing", "orders"), (HOSTILE_GROUP, "clicks")):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition(topic, number, 10 * number) for number in range(3)], asynchronous=False)
        consumer.close()


@pytest.fixture
def url(busy_broker: BrokerProcess) -> str:
    """Give the address of the busy broker's pages."""
    return address(busy_broker)


def address(broker: BrokerProcess) -> str:
    """Return where the pages of a broker are."""
    return f"http://{broker.host}:{broker.http_port}"


@pytest.fixture
def quiet_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Give a broker of the test's own, not started."""
    broker = BrokerProcess(tmp_path, {"log.dirs": f"{tmp_path}/d1,{tmp_path}/d2"})
    yield broker
    broker.close()
