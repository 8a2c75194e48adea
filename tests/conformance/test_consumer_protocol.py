"""Stock clients with `group.protocol=consumer`: rebalances, a regular expression, a crash of the broker, Java."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from tests.harness import tool_host
from tests.harness.broker import BrokerProcess, broker_class
from tests.harness.raw import RawClient, eventually

PROPERTIES = {
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
}


@pytest.fixture(scope="module")
def quick_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = broker_class()(tmp_path_factory.mktemp("consumer-protocol"), PROPERTIES)
    broker.start()
    yield broker
    broker.close()
    assert not broker.trouble(), broker.trouble()


class Reader:
    """A consumer in a thread of its own; tells what it owns and what it has read."""

    def __init__(self, broker: BrokerProcess, group: str, *topics: str) -> None:
        self.owned: list[tuple[str, int]] = []
        self.read: set[tuple[str, int, int]] = set()
        self._is_stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.subscribe(list(topics))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            message = self._consumer.poll(0.1)
            self.owned = sorted((one.topic, one.partition) for one in self._consumer.assignment())
            if message is not None and message.error() is None:
                self.read.add((message.topic(), message.partition(), message.offset()))
        self._consumer.close()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(30)


def _produce(broker: BrokerProcess, topic: str, partitions: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(30) == 0


def test_members_of_librdkafka_share_a_topic_through_joins_leaves_and_a_crash(
    quick_broker: BrokerProcess, unique: str
) -> None:
    with RawClient((quick_broker.host, quick_broker.port)) as client:
        client.create_topic(unique, 6)
    _produce(quick_broker, unique, 6, 300)
    readers = [Reader(quick_broker, unique, unique) for _ in range(3)]
    by_regex = Reader(quick_broker, f"{unique}-regex", f"^{unique}.*")
    everybody = [*readers, by_regex]
    try:
        eventually(lambda: [len(reader.owned) for reader in readers] == [2, 2, 2], what="a third each")
        readers[0].stop()
        eventually(lambda: [len(reader.owned) for reader in readers[1:]] == [3, 3], what="a half each")
        eventually(lambda: len(by_regex.owned) == 6, what="all that the expression matches")
        quick_broker.kill()
        quick_broker.start()
        _produce(quick_broker, unique, 6, 300)
        eventually(lambda: len(set().union(*(reader.read for reader in readers))) == 600, what="everything is read")
        eventually(lambda: len(by_regex.read) == 600, what="everything is read by the expression")
        assert sorted(one for reader in readers[1:] for one in reader.owned) == [(unique, n) for n in range(6)]
    finally:
        for reader in everybody:
            reader.stop()


@pytest.mark.jvm
@pytest.mark.parametrize("selection", ["--topic", "--include"])
def test_javas_console_consumer(quick_broker: BrokerProcess, unique: str, selection: str) -> None:
    with RawClient((quick_broker.host, quick_broker.port)) as client:
        client.create_topic(unique, 2)
    _produce(quick_broker, unique, 2, 3)
    wanted = unique if selection == "--topic" else f"{unique[:-1]}.*"
    group = f"{unique}-{selection.strip('-')}"
    options = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "30000")
    done = tool_host.attempt(
        "kafka-console-consumer",
        *("--bootstrap-server", quick_broker.bootstrap, selection, wanted, "--group", group, *options),
        *("--command-property", "group.protocol=consumer"),
    )
    assert sorted(done.out.split()) == ["0", "1", "2"], done.err
    shown = tool_host.attempt(
        "kafka-consumer-groups",
        *("--bootstrap-server", quick_broker.bootstrap, "--describe", "--group", group, "--state"),
    )
    assert "Empty" in shown.out, shown.text
