"""RET-01 to RET-03: retention of timestamps far off, and DeleteRecords."""

import re
import time

import pytest
from confluent_kafka import Consumer

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.admin import delete_records, set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.disk import START, folder
from tests.harness.offsets import commit
from tests.harness.raw import RawClient, eventually

PROPERTIES = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "1",
}
FOREVER = str(2**63 - 1)
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, POLICY_VIOLATION, INVALID_TOPIC = 1, 3, 44, 17
EACH_BATCH_ITS_SEGMENT = {"segment_ms": "1"}


def _at(*timestamps: int, size: int = 1) -> bytes:
    return batches.build([Record(b"v" * size, b"k", timestamp=timestamp) for timestamp in timestamps])


def _now() -> int:
    return int(time.time() * 1000)


def _range(client: RawClient, topic: str, partition: int = 0) -> tuple[int, int]:
    return client.start_offset(topic, partition), client.end_offset(topic, partition)


def _wait_for_a_retention_run(client: RawClient, topic: str) -> None:
    """Append an expired record to a topic and wait until retention has taken it: by then it has seen all others."""
    for _ in range(2):  # the run that takes the first may have passed the others before they were as they are
        end = client.append(topic, _at(1000)) + 1
        eventually(lambda end=end: _range(client, topic) == (end, end), what="a retention run")


def test_ret_01_timestamps_far_in_the_future(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic, clock = fresh("future"), fresh("clock")
    client.create_topic(clock, retention_ms="1000")
    configs = {"retention_ms": "1000", "message_timestamp_after_max_ms": FOREVER, "internal_segment_bytes": "100"}
    client.create_topic(topic, 3, **configs)
    far = (_now() * 1000, 2**62, START)
    for partition, timestamps in enumerate((far, (2**62, _now() * 1000, START), (START, START + 1, START + 2))):
        for offset, timestamp in enumerate(timestamps):
            assert client.append(topic, _at(timestamp), partition) == offset
    # Nothing but the partition with normal times expires; old segments behind a future one stay.
    eventually(lambda: _range(client, topic, 2) == (3, 3), what="normal times expired")
    _wait_for_a_retention_run(client, clock)
    assert [_range(client, topic, partition) for partition in (0, 1)] == [(0, 3), (0, 3)]
    for timestamp in (0, START, _now() * 1000, 2**62, 2**62 + 1, 2**63 - 1):
        for partition in range(3):
            assert client.list_offset(topic, timestamp, partition).error_code == 0
    assert client.list_offset(topic, 2**62, 0).offset == 1
    assert client.list_offset(topic, 2**62 + 1, 0).offset == -1
    assert client.list_offset(topic, -3, 0, version=7).offset == 1

    assert delete_records(client, topic, 1, 0).low_watermark == 1
    eventually(lambda: len(list(folder(broker, topic, 0).glob("*.log"))) == 2, what="the segment below gone")
    size = len(_at(1))
    set_configs(client, topic, retention_bytes=str(size))
    # What is behind the two future ones is old, and goes as soon as they are gone.
    for partition in (0, 1):
        eventually(lambda partition=partition: _range(client, topic, partition) == (3, 3), what="removed by size")
    warnings = re.findall(rf"^.*\bWARN.*{topic}-[01].*$", broker.log_text(), re.MULTILINE)
    assert len(warnings) < 60


def test_ret_02_timestamps_far_in_the_past_and_none(broker: BrokerProcess, client: RawClient, fresh) -> None:
    past, none, mixed = fresh("a"), fresh("b"), fresh("c")
    for topic in (past, none, mixed):
        client.create_topic(topic, retention_ms="60000")
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": fresh("g"), "auto.offset.reset": "earliest"}
    )
    client.append(none, _at(-1, -1))
    client.append(mixed, _at(START, _now(), START))
    client.append(mixed, _at(START))
    client.append(past, _at(1_500_000_000, 1_500_000_000))
    eventually(lambda: _range(client, past) == (2, 2), what="the active segment rolled and removed")
    consumer.subscribe([past])
    _wait_for_a_retention_run(client, past)
    assert (_range(client, none), _range(client, mixed)) == ((0, 2), (0, 4))

    fresh_at = client.append(past, _at(_now()))
    message = eventually(lambda: consumer.poll(0.1), what="the new record")
    assert (message.error(), message.offset()) == (None, fresh_at)
    consumer.close()
    [log] = folder(broker, past).glob("*.log")
    assert int(log.stem) > 0


def test_ret_03_delete_records(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic, compacted = fresh(), fresh("compacted")
    client.create_topic(topic)
    client.create_topic(compacted, cleanup_policy="compact")
    client.append(topic, batches.simple(*(f"{number}" for number in range(10)), timestamp=_now()))
    client.append(compacted, _at(_now()))

    def ask(offset: int, name: str = topic, partition: int = 0) -> tuple[int, int]:
        result = delete_records(client, name, offset, partition)
        return result.error_code, result.low_watermark

    assert ask(4) == (0, 4)
    assert client.start_offset(topic) == 4
    assert client.fetch(topic, 0).error_code == OFFSET_OUT_OF_RANGE
    assert client.fetch(topic, 3).error_code == OFFSET_OUT_OF_RANGE
    assert batches.parse(client.fetch(topic, 4).records)[0].base_offset == 0
    assert ask(2) == (0, 4)
    assert ask(11) == (OFFSET_OUT_OF_RANGE, -1)
    assert ask(-2) == (OFFSET_OUT_OF_RANGE, -1)
    assert ask(5, "missing") == (UNKNOWN_TOPIC, -1)
    assert ask(0, topic, 7) == (UNKNOWN_TOPIC, -1)
    assert ask(1, compacted) == (POLICY_VIOLATION, -1)
    commit(client, "g", topic, 1)
    assert ask(1, "__consumer_offsets") == (INVALID_TOPIC, -1)
    assert client.start_offset(topic) == 4
    broker.restart()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(topic, 1)
        assert _range(later, topic) == (4, 10)
        result = delete_records(later, topic, -1)
        assert (result.error_code, result.low_watermark) == (0, 10)
        assert _range(later, topic) == (10, 10)
        assert later.append(topic, batches.simple("next")) == 10


def test_ret_03_the_start_is_kept_over_a_crash(broker: BrokerProcess, fresh, is_reference: bool) -> None:
    if is_reference:
        pytest.skip("the reference writes its checkpoint of log starts once a minute")
    topic = fresh()
    with RawClient(address(broker)) as client:
        client.create_topic(topic)
        client.append(topic, batches.simple(*(f"{number}" for number in range(10)), timestamp=_now()))
        assert delete_records(client, topic, 7).low_watermark == 7
    broker.kill()
    broker.start()
    with RawClient(address(broker)) as client:
        eventually(lambda: client.list_offset(topic, -1).error_code == 0)
        assert _range(client, topic) == (7, 10)


def test_ret_03_segments_wholly_below_the_start_are_removed(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, **EACH_BATCH_ITS_SEGMENT, retention_ms="-1")
    for number in range(5):
        client.append(topic, _at(START + 10 * number, START + 10 * number))
    assert delete_records(client, topic, 5).low_watermark == 5

    def names() -> list[int]:
        return [int(path.stem) for path in sorted(folder(broker, topic).glob("*.log*")) if path.suffix == ".log"]

    eventually(lambda: names() == [4, 6, 8], what="segments 0 and 2 gone")
    eventually(lambda: not list(folder(broker, topic).glob("*.deleted")), what="their files gone")
    assert _range(client, topic) == (5, 10)
    assert [
        record.offset for record in batches.records_of(client.fetch_all(topic, offset=5)) if record.offset >= 5
    ] == [*range(5, 10)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_ret_03_every_version_answers(client: RawClient, fresh, version: int) -> None:
    if not client.offers("delete_records", version):
        pytest.skip(f"version {version} is not offered")
    topic = fresh()
    client.create_topic(topic)
    client.append(topic, _at(_now(), _now()))
    rows = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    [answer] = client.request("delete_records", version, topics=rows, timeout_ms=15000).topics
    [result] = answer.partitions
    assert (answer.name, result.error_code, result.low_watermark) == (topic, 0, 1)
