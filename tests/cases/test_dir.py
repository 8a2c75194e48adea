"""DIR-01 to DIR-03: moves between log directories while clients go on, what DescribeLogDirs shows, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.conftest import REFERENCE_PROPERTIES, address, check_health
from tests.harness import batches
from tests.harness.admin import delete_records, set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.disk import newest
from tests.harness.log_dirs import (
    INVALID_TOPIC_EXCEPTION,
    LOG_DIR_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION,
    Placed,
    alter,
    checkpointed_in,
    create_in,
    describe,
    folders,
    future_in,
    log_dirs,
    logs_in,
    move,
    new_directories,
    places,
    stored_size,
    throttle,
    wait_for_leaders,
    wait_until_only_in,
)
from tests.harness.raw import RawClient, eventually
from tests.harness.traffic import traffic

PROPERTIES = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "200",
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.num.partitions": "1",
}
KIB, MIB = 1 << 10, 1 << 20
PARTITION_MIB = 33
# The reference lets the first ten seconds' worth through at once.
SLOW = MIB // 4
REQUEST_TIMED_OUT = 7
RECOVERY, START, WATERMARK, CLEANER = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def begin(broker_factory: BrokerFactory, *directories: Path, **properties: str) -> BrokerProcess:
    reference = REFERENCE_PROPERTIES if reference_wanted() else {}
    return broker_factory({**PROPERTIES, **reference, **log_dirs(*directories), **properties})


def fill(client: RawClient, topic: str, partition: int, mebibytes: int) -> None:
    """Append batches of a MiB, each with a record for each of its KiB."""
    batch = batches.build([Record(b"%04d" % number + bytes(1000)) for number in range(KIB)])
    for _ in range(mebibytes):
        client.append(topic, batch, partition)


def stays_in(client: RawClient, directory: Path) -> None:
    """The reference leaves the checkpoints of a directory as they are when its last log has gone."""
    if reference_wanted():
        create_in(client, "stays", directory)


def watch_the_lag_fall(client: RawClient, directory: Path, topic: str) -> list[int]:
    """Give the lags of a future log as they were seen: the copy has begun, and gone on."""
    lags: list[int] = []

    def has_fallen() -> bool:
        found = future_in(client, directory, topic)
        assert found is not None, "the move is over before it could be watched"
        lags.append(found.lag)
        return found.lag < lags[0] - KIB // 2

    eventually(has_fallen, what="the lag falls")
    return lags


def test_dir_01_a_partition_moves_while_clients_go_on(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a, a, a)
        for partition in range(3):
            fill(client, "t", partition, PARTITION_MIB)
        throttle(client, MIB)
        with traffic(broker, "t", 3) as running:
            assert move(client, b, "t") == 0
            assert move(client, b, "t") == 0
            eventually(lambda: future_in(client, b, "t"))
            assert not places(client, "t")[str(a)].is_future
            watch_the_lag_fall(client, b, "t")
            running.wait_for_more()

            assert move(client, a, "t") == 0
            wait_until_only_in(client, a, "t")
            assert folders(a, "t") == ["t-0"]
            eventually(lambda: not folders(b, "t"), what="the given-up copy is deleted")
            running.wait_for_more()

            assert [move(client, b, "t"), move(client, b, "t")] == [0, 0]
            watch_the_lag_fall(client, b, "t")
            throttle(client, None)
            wait_until_only_in(client, b, "t")
            assert move(client, b, "t") == 0
            running.wait_for_more()
            assert places(client, "t", 1).keys() == places(client, "t", 2).keys() == {str(a)}
        eventually(lambda: not folders(a, "t"), what="the source is deleted")
        assert folders(b, "t") == ["t-0"]
        eventually(lambda: not checkpointed_in(a, "t"), what="no row in the source")
        eventually(lambda: {RECOVERY, WATERMARK} <= checkpointed_in(b, "t").keys(), what="rows in the destination")
        before = [(client.end_offset("t", partition), client.fetch_all("t", partition)) for partition in range(3)]
    broker.restart()
    wait_for_leaders(broker, "t", 3)
    with RawClient(address(broker)) as client:
        for partition, (end, data) in enumerate(before):
            assert client.end_offset("t", partition) == end
            assert client.fetch_all("t", partition) == data
        assert not places(client, "t")[str(b)].is_future
        assert list(places(client, "t")) == [str(b)]
        client.append("t", batches.simple("on B"))
    assert (folders(a, "t"), folders(b, "t")) == ([], ["t-0"])
    check_health(broker)


COMPACT = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "1"}


def _roll(client: RawClient, topic: str, after: int) -> None:
    """Append what begins a new segment: its time is past the end of the one before."""
    client.append(topic, batches.build([Record(b"roll", b"roll", timestamp=1_700_000_000_000 + after)]))


def test_dir_01_cleaning_goes_on_where_a_compacted_partition_has_moved(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    newest_values: dict[bytes, bytes] = {}

    def write(client: RawClient, round_number: int) -> None:
        for number in range(40):
            key, value = b"key-%d" % (number % 7), b"%d-%d" % (round_number, number)
            timestamp = 1_700_000_000_000 + round_number * 100_000 + number
            client.append("c", batches.build([Record(value, key, timestamp=timestamp)]))
            newest_values[key] = value
        _roll(client, "c", round_number * 100_000 + 90_000)

    with RawClient(address(broker)) as client:
        create_in(client, "c", a, **COMPACT)
        stays_in(client, a)
        write(client, 1)
        cleaned = int(newest(a / "c-0", ".log").stem)
        eventually(lambda: checkpointed_in(a, "c").get(CLEANER, 0) >= cleaned, what="cleaned in A")
        throttle(client, 0)
        assert move(client, b, "c") == 0
        assert eventually(lambda: future_in(client, b, "c"))
        write(client, 2)
        throttle(client, None)
        wait_until_only_in(client, b, "c")
        eventually(lambda: not checkpointed_in(a, "c"), what="no row in the source")
        eventually(lambda: checkpointed_in(b, "c").get(CLEANER, 0) >= cleaned, what="the row is in the destination")
        write(client, 3)
        cleaned = int(newest(b / "c-0", ".log").stem)
        eventually(lambda: checkpointed_in(b, "c").get(CLEANER, 0) >= cleaned, what="cleaned in B")
        stored = batches.records_of(client.fetch_all("c"))
        assert {record.key: record.value for record in stored} == newest_values | {b"roll": b"roll"}
        assert len(stored) < 20, "cleaned: far less than was written"
    broker.restart()
    wait_for_leaders(broker, "c")
    with RawClient(address(broker)) as client:
        assert batches.records_of(client.fetch_all("c")) == stored
    eventually(lambda: not folders(a, "c"), what="the source is deleted")
    assert folders(b, "c") == ["c-0"]


def test_dir_01_retention_and_delete_records_go_on_during_and_after_a_move(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "r", a, segment_bytes=str(MIB))
        stays_in(client, a)
        fill(client, "r", 0, 12)
        throttle(client, SLOW)
        assert move(client, b, "r") == 0
        assert eventually(lambda: future_in(client, b, "r")).lag > 0
        # The log's start passes what is copied, into the middle of a batch.
        # The reference waits for the copy too, and gives up at the end of the request's time.
        start = 10 * KIB + 500
        assert delete_records(client, "r", start, timeout_ms=500).error_code in (0, REQUEST_TIMED_OUT)
        assert client.start_offset("r") == start
        throttle(client, None)
        wait_until_only_in(client, b, "r")
        assert client.start_offset("r") == start
        eventually(lambda: checkpointed_in(b, "r").get(START) == start, what="the start is in B's checkpoint")
        stored = batches.records_of(client.fetch_all("r", offset=start))
        assert [record.offset for record in stored if record.offset >= start] == list(range(start, 12 * KIB))
        set_configs(client, "r", retention_bytes=str(MIB))
        fill(client, "r", 0, 3)
        eventually(lambda: client.start_offset("r") > 12 * KIB, what="retention in B")
        start, end = client.start_offset("r"), client.end_offset("r")
        eventually(lambda: not checkpointed_in(a, "r") and not folders(a, "r"), what="nothing left in the source")
    broker.restart()
    wait_for_leaders(broker, "r")
    with RawClient(address(broker)) as client:
        assert (client.start_offset("r"), client.end_offset("r")) == (start, end)
    assert (folders(a, "r"), folders(b, "r")) == ([], ["r-0"])


@pytest.mark.parametrize("clean", [True, False], ids=["SIGTERM", "SIGKILL"])
def test_dir_01_a_move_goes_on_after_a_restart(broker_factory: BrokerFactory, tmp_path: Path, clean: bool) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a)
        fill(client, "t", 0, 8)
        throttle(client, SLOW)
        assert move(client, b, "t") == 0
        assert eventually(lambda: future_in(client, b, "t")).lag > 0
        data = client.fetch_all("t")
    broker.stop() if clean else broker.kill()
    assert [name.rpartition("-")[2] for name in folders(b, "t")] == ["future"]
    broker.start()
    wait_for_leaders(broker, "t")
    with RawClient(address(broker)) as client:
        throttle(client, None)
        wait_until_only_in(client, b, "t")
        assert client.fetch_all("t") == data
        eventually(lambda: not folders(a, "t"))
        assert folders(b, "t") == ["t-0"]


def test_dir_01_a_move_is_redirected_to_a_third_directory(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b, c = new_directories(tmp_path, 3)
    broker = begin(broker_factory, a, b, c)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a)
        fill(client, "t", 0, 8)
        throttle(client, SLOW)
        assert move(client, b, "t") == 0
        assert eventually(lambda: future_in(client, b, "t"))
        assert move(client, c, "t") == 0
        assert eventually(lambda: future_in(client, c, "t"))
        assert places(client, "t").keys() == {str(a), str(c)}
        throttle(client, None)
        wait_until_only_in(client, c, "t")
        eventually(lambda: not folders(a, "t") and not folders(b, "t"), what="only C has a folder")
        assert folders(c, "t") == ["t-0"]


def test_dir_01_a_topic_is_deleted_while_it_moves(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a)
        fill(client, "t", 0, 8)
        throttle(client, SLOW)
        assert move(client, b, "t") == 0
        assert eventually(lambda: future_in(client, b, "t"))
        client.delete_topic("t")
        eventually(lambda: not folders(a, "t") and not folders(b, "t"), what="both folders are deleted")
        assert not places(client, "t")
        client.create_topic("t")
        assert client.end_offset("t") == 0
        [placed] = places(client, "t").values()
        assert placed == Placed(0, 0, False)
    check_health(broker)


def test_dir_02_what_describe_log_dirs_lists(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b, empty = new_directories(tmp_path, 3)
    broker = begin(broker_factory, a, b, empty)
    with RawClient(address(broker)) as client:
        create_in(client, "first", a, b)
        create_in(client, "second", b, segment_bytes=str(MIB))
        for number in range(5):
            client.append("first", batches.of_size(1000 + number), number % 2)
        fill(client, "second", 0, 3)
        everything = {
            str(a): {("first", 0): Placed(stored_size(a, "first-0"), 0, False)},
            str(b): {
                ("first", 1): Placed(stored_size(b, "first-1"), 0, False),
                ("second", 0): Placed(stored_size(b, "second-0"), 0, False),
            },
            str(empty): {},
        }
        assert everything[str(a)]["first", 0].size == 1000 + 1002 + 1004
        assert len(list((b / "second-0").glob("*.log"))) > 1

        for version in client.offered("describe_log_dirs", 1, 2, 3, 4):

            def listed(topics, version=version) -> dict[str, dict[tuple[str, int], Placed]]:
                answer = describe(client, topics, version=version)
                assert all(result.error_code == 0 for result in answer.values())
                return {path: logs_in(result) for path, result in answer.items()}

            assert listed(None) == everything
            assert listed({"first": [1]}) == {
                str(a): {},
                str(b): {("first", 1): everything[str(b)]["first", 1]},
                str(empty): {},
            }
            for nothing in ({"nowhere": [0]}, {"first": [7]}, {"first": []}, {}):
                assert listed(nothing) == {str(a): {}, str(b): {}, str(empty): {}}, nothing
            if version >= 4:
                assert all(
                    result.total_bytes >= result.usable_bytes > 0
                    for result in describe(client, version=version).values()
                )


LONG = "n" * 249


def test_dir_03_moves_that_are_refused_and_a_name_too_long_to_move(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a)
        client.append("t", batches.simple("here"))
        before = places(client, "t")
        for nowhere in (tmp_path / "nowhere", "disk-1", "./disk-1", f"{b}/", ""):
            assert move(client, nowhere, "t") == LOG_DIR_NOT_FOUND, nowhere
        assert move(client, a, "t") == 0
        assert move(client, b, "unknown") == UNKNOWN_TOPIC_OR_PARTITION
        assert move(client, b, "t", 1) == UNKNOWN_TOPIC_OR_PARTITION
        mixed = alter(client, [(b, {"unknown": [0, 3]}), (a, {"t": [0]}), ("/nowhere", {"t": [1]})], version=1)
        assert mixed == {("unknown", 0): 3, ("unknown", 3): 3, ("t", 0): 0, ("t", 1): 57}
        assert places(client, "t") == before
        assert folders(b, "t") == []

        client.create_topic(LONG)
        client.append(LONG, batches.simple("long"))
        [home] = places(client, LONG)
        there, elsewhere = (a, b) if home == str(a) else (b, a)
        assert move(client, elsewhere, LONG) == INVALID_TOPIC_EXCEPTION
        assert move(client, there, LONG) == INVALID_TOPIC_EXCEPTION
        assert list(places(client, LONG)) == [home]
        client.append(LONG, batches.simple("still"))
        client.delete_topic(LONG)
        # The name of a folder to be deleted may be shortened.
        eventually(lambda: not list(tmp_path.glob("disk-?/nnn*")), what="the folder is deleted")
        client.create_topic(LONG)
        assert client.append(LONG, batches.simple("again")) == 0
    broker.restart()
    wait_for_leaders(broker, LONG)
    with RawClient(address(broker)) as client:
        assert client.end_offset(LONG) == 1
        assert len(list(tmp_path.glob("disk-?/nnn*"))) == 1
    check_health(broker)
