"""DIR-04 and DIR-05: a directory that cannot be used, at the start or suddenly; a partition found twice."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.conftest import REFERENCE_PROPERTIES, address, check_health
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.log_dirs import (
    KAFKA_STORAGE_ERROR,
    REPLICA_NOT_AVAILABLE,
    Placed,
    create_in,
    describe,
    folders,
    log_dirs,
    logs_in,
    move,
    new_directories,
    places,
    tree,
    wait_for_leaders,
)
from tests.harness.raw import RawClient, eventually

PROPERTIES = {
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
}
# A client tries again on each of these: KAFKA_STORAGE_ERROR, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER.
AWAY = {56, 5, 6}
CLEAN_EXITS = {0, 143}
CLEAN_MARKER = ".kafka_cleanshutdown"
MIB = 1 << 20
FULL_AFTER_MIB = 24
REFUSED_WITHIN_S = 15


def begin(broker_factory: BrokerFactory, *directories: Path) -> BrokerProcess:
    reference = REFERENCE_PROPERTIES if reference_wanted() else {}
    return broker_factory({**PROPERTIES, **reference, **log_dirs(*directories)})


def values(client: RawClient, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in batches.records_of(client.fetch_all(topic, partition))]


def check_away(client: RawClient, topic: str, partition: int) -> None:
    """Assert that every way to a partition ends in an error, never in an empty one."""
    assert client.produce(topic, batches.simple("refused"), partition).error_code in AWAY
    fetched = client.fetch(topic, 0, partition)
    assert (fetched.error_code in AWAY, fetched.records or b"") == (True, b"")
    for timestamp in (-1, -2, 0):
        assert client.list_offset(topic, timestamp, partition).error_code in AWAY


def check_offline(client: RawClient, directory: Path, *healthy: Path) -> None:
    described = describe(client)
    assert described.keys() == {str(path) for path in (directory, *healthy)}
    assert {path for path, result in described.items() if result.error_code} == {str(directory)}
    offline = described[str(directory)]
    assert (offline.error_code, offline.topics) == (KAFKA_STORAGE_ERROR, [])
    assert (offline.total_bytes, offline.usable_bytes) == (-1, -1)


def forget_errors(broker: BrokerProcess) -> None:
    """Stop the broker, and take its errors as wanted."""
    broker.close()
    broker.log_path.write_text("")


def two_disks(broker: BrokerProcess, a: Path, b: Path) -> None:
    """Put a topic with a partition and a record in each of the directories."""
    with RawClient(address(broker)) as client:
        create_in(client, "t", a, b)
        for partition in range(2):
            client.append("t", batches.simple(f"before-{partition}"), partition)


def test_dir_04_a_file_in_the_place_of_a_directory(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    away = tmp_path / "away"
    broker = begin(broker_factory, a, b)
    two_disks(broker, a, b)
    broker.stop()
    b.rename(away)
    b.write_bytes(b"not mounted")
    broker.start()
    with RawClient(address(broker)) as client:
        eventually(lambda: client.list_offset("t", -1).error_code == 0)
        assert client.append("t", batches.simple("meanwhile")) == 1
        check_away(client, "t", 1)
        check_offline(client, b, a)
        assert move(client, b, "t") == KAFKA_STORAGE_ERROR
        assert move(client, a, "t", 1) == REPLICA_NOT_AVAILABLE
        client.create_topic("new", 3)
        assert all(list(places(client, "new", partition)) == [str(a)] for partition in range(3))
        client.append("new", batches.simple("new"), 1)
        check_away(client, "t", 1)
    check_health(broker)
    assert broker.stop() in CLEAN_EXITS
    assert (a / CLEAN_MARKER).exists()
    assert b.read_bytes() == b"not mounted"

    b.unlink()
    away.rename(b)
    broker.start()
    wait_for_leaders(broker, "t", 2)
    with RawClient(address(broker)) as client:
        assert values(client, "t", 0) == [b"before-0", b"meanwhile"]
        assert values(client, "t", 1) == [b"before-1"]
        client.append("t", batches.simple("after"), 1)
        described = describe(client)
        assert all(result.error_code == 0 for result in described.values())
        assert ("t", 1) in logs_in(described[str(b)])
        assert not logs_in(described[str(a)]).keys() & logs_in(described[str(b)]).keys()
    assert not list(b.glob("new-*"))
    forget_errors(broker)


def test_dir_04_no_directory_can_be_used(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    two_disks(broker, a, b)
    broker.stop()
    for path in (a, b):
        path.rename(path.with_suffix(".away"))
        path.write_bytes(b"not mounted")
    broker.launch()
    assert broker.wait(timeout_s=REFUSED_WITHIN_S) != 0
    assert {a.read_bytes(), b.read_bytes()} == {b"not mounted"}
    broker.log_path.write_text("")


def test_dir_04_a_directory_is_removed_while_it_is_served(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    two_disks(broker, a, b)
    with RawClient(address(broker)) as client:

        def is_noticed() -> bool:
            shutil.rmtree(b, ignore_errors=True)
            client.produce("t", batches.simple("?"), 1)
            return describe(client)[str(b)].error_code == KAFKA_STORAGE_ERROR

        eventually(is_noticed, what="the directory counts as offline")
        eventually(lambda: client.produce("t", batches.simple("?"), 1).error_code in AWAY)
        check_away(client, "t", 1)
        check_offline(client, b, a)
        assert move(client, b, "t") == KAFKA_STORAGE_ERROR
        assert move(client, a, "t", 1) == KAFKA_STORAGE_ERROR
        assert client.append("t", batches.simple("after"), 0) == 1
        assert values(client, "t", 0) == [b"before-0", b"after"]
        client.create_topic("new", 3)
        assert all(list(places(client, "new", partition)) == [str(a)] for partition in range(3))
    check_health(broker)
    assert broker.stop() in CLEAN_EXITS
    assert (a / CLEAN_MARKER).exists()
    assert not (b / CLEAN_MARKER).exists()
    forget_errors(broker)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few MiB, where this process may."""
    disk = tmp_path / "small"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={FULL_AFTER_MIB}m", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_dir_04_a_directory_is_full(small_disk: Path, broker_factory: BrokerFactory, tmp_path: Path) -> None:
    a, b = tmp_path / "disk-0", small_disk / "disk-1"
    broker = begin(broker_factory, a, b)
    (small_disk / "ballast").write_bytes(bytes(4 * MIB))
    two_disks(broker, a, b)
    acknowledged = [b"before-1"]
    with RawClient(address(broker)) as client:
        for number in range(FULL_AFTER_MIB):
            value = b"%06d" % number + bytes(MIB - 200)
            result = client.produce("t", batches.build([Record(value)]), 1)
            if result.error_code:
                break
            assert result.base_offset == len(acknowledged)
            acknowledged.append(value)
        assert result.error_code in AWAY
        assert len(acknowledged) > FULL_AFTER_MIB - 12
        client.append("t", batches.simple("after"), 0)
        client.create_topic("new", 2)
        client.append("new", batches.simple("new"), 1)
    check_health(broker)
    assert broker.stop() in CLEAN_EXITS
    (small_disk / "ballast").unlink()
    broker.start()
    wait_for_leaders(broker, "t", 2)
    with RawClient(address(broker)) as client:
        assert values(client, "t", 1) == acknowledged
        assert values(client, "t", 0) == [b"before-0", b"after"]
        assert client.append("t", batches.simple("there is room"), 1) == len(acknowledged)
    forget_errors(broker)


@pytest.mark.parametrize("kept", ["A", "B"])
def test_dir_05_a_partition_that_is_found_twice(broker_factory: BrokerFactory, tmp_path: Path, kept: str) -> None:
    a, b = new_directories(tmp_path, 2)
    broker = begin(broker_factory, a, b)
    with RawClient(address(broker)) as client:
        create_in(client, "t", a)
        client.append("t", batches.simple("in both"))
    broker.stop()
    shutil.copytree(a / "t-0", b / "t-0")
    with (b / "t-0" / f"{0:020}.log").open("ab") as log:
        log.write(batches.build([Record(b"in B only")], base_offset=1))
    # The reference has begun to open the logs, and so made room in their indexes.
    looked_at = ".log" if reference_wanted() else ""
    before = tree(a / "t-0", looked_at), tree(b / "t-0", looked_at)
    broker.launch()
    assert broker.wait(timeout_s=REFUSED_WITHIN_S) != 0
    assert all(any(str(path / "t-0") in line for line in broker.log_text().splitlines()) for path in (a, b))
    assert (tree(a / "t-0", looked_at), tree(b / "t-0", looked_at)) == before
    broker.log_path.write_text("")  # the error was wanted

    home, removed = (a, b) if kept == "A" else (b, a)
    shutil.rmtree(removed / "t-0")
    broker.start()
    wait_for_leaders(broker, "t")
    with RawClient(address(broker)) as client:
        wanted = [b"in both"] if kept == "A" else [b"in both", b"in B only"]
        assert values(client, "t") == wanted
        assert places(client, "t") == {str(home): Placed(places(client, "t")[str(home)].size, 0, False)}
        assert client.append("t", batches.simple("next")) == len(wanted)
    assert (folders(home, "t"), folders(removed, "t")) == (["t-0"], [])
    check_health(broker)
