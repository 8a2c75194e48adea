"""Topics with preallocate=true: stock clients, rolls, restarts and kills; what the files look like meanwhile."""

import itertools
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.disk import folder, newest, start
from tests.harness.raw import RawClient

SEGMENT_BYTES = 1 << 20
TOPIC = "preallocated"


def produce(broker: BrokerProcess, numbers: range) -> None:
    """Send a record of ten kilobytes a number, idempotently, and wait for every acknowledgement."""
    failures = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce(
            TOPIC,
            value=b"%d." % number + bytes(10_000),
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not failures


def consume(broker: BrokerProcess, count: int) -> list[int]:
    """Read the topic from its start."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=20)
        assert messages, f"only {len(found)} of {count} records came"
        for message in messages:
            assert message.error() is None
            found.append(int((message.value() or b"").partition(b".")[0]))
    consumer.close()
    return found


def sizes(broker: BrokerProcess) -> tuple[int, Path]:
    """Return the length of the newest segment and its path."""
    path = newest(folder(broker, TOPIC), ".log")
    return path.stat().st_size, path


@pytest.mark.parametrize("stop", ["kill", "stop"])
def test_a_preallocated_topic_serves_stock_clients_over_rolls_and_restarts(broker_factory, stop: str) -> None:
    broker: BrokerProcess = broker_factory({})
    with RawClient(address(broker)) as client:
        client.create_topic(TOPIC, preallocate="true", segment_bytes=str(SEGMENT_BYTES))
    for end in itertools.count(250, 250):
        produce(broker, range(end - 250, end))
        assert consume(broker, end) == list(range(end))
        length, path = sizes(broker)
        if reference_wanted():
            assert length == SEGMENT_BYTES
        else:
            assert path.stat().st_blocks * 512 >= min(SEGMENT_BYTES, length)
        sealed = sorted(path.parent.glob("*.log"))[:-1]
        assert len(sealed) >= 2
        with RawClient(address(broker)) as client:
            stored = client.fetch_all(TOPIC)
        in_sealed = sum(one.stat().st_size for one in sealed)
        assert stored.startswith(b"".join(one.read_bytes() for one in sealed))
        assert path.read_bytes()[: len(stored) - in_sealed] == stored[in_sealed:]
        if end == 500:
            return
        broker.kill() if stop == "kill" else broker.stop()
        if stop == "stop":
            assert sizes(broker)[0] == len(stored) - in_sealed
        start(broker, TOPIC).close()
        assert consume(broker, end) == list(range(end))


def test_the_key_is_followed_while_producers_are_at_work(broker_factory) -> None:
    broker: BrokerProcess = broker_factory({})
    with RawClient(address(broker)) as client:
        client.create_topic(TOPIC, segment_bytes=str(SEGMENT_BYTES))
        end = 0
        for value in ("true", "false", "true"):
            for _ in range(5):
                assert client.append(TOPIC, batches.simple(f"{end}")) == end
                end += 1
            set_configs(client, TOPIC, preallocate=value)
        assert client.append(TOPIC, batches.simple(f"{end}")) == end
        found = [record.value for record in batches.records_of(client.fetch_all(TOPIC))]
    assert found == [b"%d" % number for number in range(end + 1)]
