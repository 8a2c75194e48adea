"""Beyond DIR-01: moves of partitions that are special, many at once, and back and forth without a pause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.conftest import REFERENCE_PROPERTIES, address, check_health
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.disk import Idempotent
from tests.harness.log_dirs import (
    alter,
    checkpointed_in,
    create_in,
    describe,
    folders,
    log_dirs,
    logs_in,
    move,
    new_directories,
    places,
    wait_for_leaders,
    wait_until_only_in,
)
from tests.harness.offsets import commit, committed
from tests.harness.raw import RawClient, eventually
from tests.harness.traffic import traffic

PROPERTIES = {
    "log.initial.task.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.segment.delete.delay.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "replica.fetch.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "offsets.topic.num.partitions": "1",
}
MIB = 1 << 20
OFFSETS = "__consumer_offsets"
START = 1_700_000_000_000


def begin(broker_factory: BrokerFactory, *directories: Path) -> BrokerProcess:
    reference = REFERENCE_PROPERTIES if reference_wanted() else {}
    return broker_factory({**PROPERTIES, **reference, **log_dirs(*directories)})


@pytest.mark.parametrize(
    "configs",
    [
        {"preallocate": "true", "segment_bytes": str(MIB)},
        {"flush_messages": "1"},
        {"segment_bytes": str(MIB)},
        {"message_timestamp_type": "LogAppendTime", "compression_type": "gzip"},
    ],
    ids=["preallocated", "flushed at once", "many segments", "recompressed"],
)
def test_a_partition_goes_back_and_forth_under_load(
    broker_factory: BrokerFactory, tmp_path: Path, configs: dict[str, str]
) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a, **configs)
        with traffic(broker, "t") as running:
            for destination in (b, a, b, a, b):
                assert move(client, destination, "t") == 0
                wait_until_only_in(client, destination, "t")
                running.wait_for_more(100)
        data = client.fetch_all("t")
        eventually(lambda: not folders(a, "t"), what="the source is deleted")
    broker.restart()
    wait_for_leaders(broker, "t")
    with RawClient(address(broker)) as client:
        assert client.fetch_all("t") == data
    assert folders(b, "t") == ["t-0"]
    check_health(broker)


def test_offsets_and_times_and_producers_are_known_after_a_move(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a, index_interval_bytes="100", segment_ms="50000")
        producer = Idempotent(client, "t")
        for number in range(10):
            assert producer.send(client, number * 5, 5) == (0, number * 15)
            for late in (1, 2):
                records = [Record(b"plain", timestamp=START + number * 10_000 + late * 100 + at) for at in range(5)]
                client.append("t", batches.build(records))
        for _ in range(2):
            before = {at: client.list_offset("t", at).offset for at in range(START, START + 100_000, 777)}
            epochs = _epoch_end(client)
            destination = b if list(places(client, "t")) == [str(a)] else a
            assert move(client, destination, "t") == 0
            wait_until_only_in(client, destination, "t")
            assert {at: client.list_offset("t", at).offset for at in before} == before
            assert _epoch_end(client) == epochs
            assert producer.send(client, 45, 5) == (0, 135), "a repeated batch is recognised"
            assert producer.send(client, 60, 5)[0] == 45, "a gap is noticed"


def _epoch_end(client: RawClient) -> tuple[int, int, int]:
    row = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    answer = client.request("offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": "t", "partitions": [row]}])
    [[found]] = [topic.partitions for topic in answer.topics]
    return found.error_code, found.leader_epoch, found.end_offset


def test_a_parked_fetch_is_answered_after_the_move(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client, RawClient(address(broker)) as waiting:
        create_in(client, "t", a)
        client.append("t", batches.simple("first"))
        row = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": MIB}
        waiting.send(
            "fetch",
            11,
            replica_id=-1,
            max_wait_ms=20_000,
            min_bytes=1,
            max_bytes=MIB,
            topics=[{"topic": "t", "partitions": [row]}],
        )
        assert move(client, b, "t") == 0
        wait_until_only_in(client, b, "t")
        client.append("t", batches.simple("second"))
        _, answer = waiting.receive("fetch", 11)
        [[found]] = [topic.partitions for topic in answer.responses]
        assert [record.value for record in batches.records_of(found.records)] == [b"second"]


def test_many_partitions_move_at_once(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b, c = new_directories(tmp_path, 3)
    count = 24
    broker = begin(broker_factory, a, b, c)
    with RawClient(address(broker)) as client:
        create_in(client, "t", *[a] * count)
        for partition in range(count):
            client.append("t", batches.simple(*[f"{partition}-{number}" for number in range(100)]), partition)
        wanted = [(b, {"t": range(0, count, 2)}), (c, {"t": range(1, count, 2)})]
        assert set(alter(client, wanted).values()) == {0}

        def have_arrived() -> bool:
            listed = {path: logs_in(result) for path, result in describe(client, {"t": range(count)}).items()}
            return not any(log.is_future for logs in listed.values() for log in logs.values()) and {
                path: sorted(partition for _, partition in logs) for path, logs in listed.items()
            } == {str(a): [], str(b): list(range(0, count, 2)), str(c): list(range(1, count, 2))}

        eventually(have_arrived, within_s=60, what="all are where they shall be")
        for partition in range(count):
            stored = batches.records_of(client.fetch_all("t", partition))
            assert [record.value for record in stored] == [b"%d-%d" % (partition, number) for number in range(100)]
        eventually(lambda: not list(a.glob("t-*")), what="the sources are deleted")
        if not reference_wanted():  # which leaves the files of a directory alone when its last log has gone
            eventually(lambda: not any(checkpointed_in(a, "t", partition) for partition in range(count)))
    check_health(broker)


def test_the_partition_of_the_groups_moves(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a)
        commit(client, "before", "t", 1)
        [home] = places(client, OFFSETS)
        there = b if home == str(a) else a
        with traffic(broker, "t", group="on its way") as running:
            assert move(client, there, OFFSETS) == 0
            commit(client, "during", "t", 2)
            wait_until_only_in(client, there, OFFSETS)
            running.wait_for_more()
            commit(client, "after", "t", 3)
        read = sum(map(len, running.read.values()))
        shown = {group: committed(client, group, "t")[0] for group in ("before", "during", "after", "on its way")}
        assert shown == {"before": 1, "during": 2, "after": 3, "on its way": read}
    broker.kill()
    broker.start()
    wait_for_leaders(broker, OFFSETS)
    with RawClient(address(broker)) as client:
        assert {group: eventually(lambda group=group: committed(client, group, "t"))[0] for group in shown} == shown
        assert list(places(client, OFFSETS)) == [str(there)]
        eventually(lambda: not folders(Path(home), OFFSETS))
