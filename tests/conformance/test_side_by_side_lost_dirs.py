"""What clients see of a directory that fails, is away at a start, and comes back, is what Apache Kafka shows.

Where replicas land differs, so everything is told by role: "kept" is a partition on the disk that stays, "lost" one on
the other. The in-sync set of a lost partition differs: eligible leader replicas (KIP-966) take it over in Kafka.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.groups import subscription
from tests.harness.pair import Pair
from tests.harness.raw import RawClient, eventually, fetch_row, fetch_values

pytestmark = pytest.mark.jvm

PARTITIONS = 4
STORAGE_ERROR, NOT_COORDINATOR, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER = 56, 16, 5, 6
PROPERTIES = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "log.segment.delete.delay.ms": "3600000",
    "log.cleaner.enable": "false",
}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    both = Pair(tmp_path, disks=2, properties=PROPERTIES)
    yield both
    both.ours.log_path.write_text("")  # the failed directory was wanted
    both.close()


def dirs_of(broker: BrokerProcess) -> tuple[Path, Path]:
    """Give the directory that stays, which has the metadata, and the one that fails."""
    first, second = broker.properties["log.dirs"].split(",")
    return Path(first), Path(second)


def roles(broker: BrokerProcess, topic: str, *, lost_dir: Path | None = None) -> dict[str, int]:
    """Give a partition of each role."""
    kept, lost = dirs_of(broker)
    found = {}
    for role, directory in (("kept", kept), ("lost", lost_dir or lost)):
        found[role] = min(int(path.name.rpartition("-")[2]) for path in directory.glob(f"{topic}-?"))
    return found


def group_of(partition: int) -> str:
    """Give a group whose offsets lie in a partition of the offsets topic."""

    def partition_of(name: str) -> int:
        hashed = 0
        for character in name:
            hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
        return (hashed & 0x7FFFFFFF) % PARTITIONS

    return next(name for number in range(100) if partition_of(name := f"g{number}") == partition)


def commit(client: RawClient, group: str) -> int:
    row = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    answer = client.request(
        "offset_commit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "t", "partitions": [row]}],
    )
    return answer.topics[0].partitions[0].error_code


def fill(broker: BrokerProcess, client: RawClient) -> None:
    """Create topics and groups with something in every partition."""
    for topic in ("t", "gone"):
        client.create_topic(topic, PARTITIONS, retention_ms="-1")
        for partition in range(PARTITIONS):
            client.append(topic, batches.simple("v"), partition)
    for partition in range(PARTITIONS):
        group = group_of(partition)
        eventually(lambda group=group: client.request("find_coordinator", 1, key=group, key_type=0).error_code == 0)
        eventually(lambda group=group: commit(client, group) == 0, what="the coordinator")


# --- what clients see ---


def of_partition(client: RawClient, partition: int) -> dict[str, Any]:
    """Show what the requests of clients say of one partition of the topic."""
    shown: dict[str, Any] = {}
    [row] = [row for row in client.topic("t").partitions if row.partition_index == partition]
    shown["metadata"] = row.error_code, row.leader_id, row.replica_nodes, row.offline_replicas
    described = client.request("describe_topic_partitions", 0, topics=[{"name": "t"}], response_partition_limit=100)
    [row] = [row for row in described.topics[0].partitions if row.partition_index == partition]
    shown["described"] = row.error_code, row.leader_id, row.replica_nodes, row.offline_replicas
    for version in (3, 9, 11):
        shown[f"produce v{version}"] = client.produce("t", batches.simple("n"), partition, version=version).error_code
    for version in (4, 5, 6, 11, 13):
        found = client.fetch("t", 0, partition, version=version)
        shown[f"fetch v{version}"] = found.error_code, found.high_watermark, len(found.records or b"")
    for timestamp in (-1, -2, -3, 0):
        row = client.list_offset("t", timestamp, partition, version=7)
        shown[f"offset at {timestamp}"] = row.error_code, row.offset
    [row] = (
        client.request(
            "delete_records",
            2,
            topics=[{"name": "t", "partitions": [{"partition_index": partition, "offset": 0}]}],
            timeout_ms=5000,
        )
        .topics[0]
        .partitions
    )
    shown["delete records"] = row.error_code, row.low_watermark
    asked = {"partition": partition, "current_leader_epoch": -1, "leader_epoch": 0}
    [row] = (
        client.request("offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": "t", "partitions": [asked]}])
        .topics[0]
        .partitions
    )
    shown["end of epoch"] = row.error_code
    return shown


def of_group(broker: BrokerProcess, client: RawClient, group: str) -> dict[str, Any]:
    """Show what the requests of a group's members say."""
    shown: dict[str, Any] = {}
    found = client.request("find_coordinator", 1, key=group, key_type=0)
    shown["find"] = found.error_code, found.node_id
    [row] = client.request("find_coordinator", 4, key_type=0, coordinator_keys=[group]).coordinators
    shown["find v4"] = row.error_code, row.node_id
    shown["commit"] = commit(client, group)
    topics = [{"name": "t", "partition_indexes": [0]}]
    shown["offsets"] = client.request("offset_fetch", 5, group_id=group, topics=topics).error_code
    with RawClient((broker.host, broker.port)) as member:
        shown["join"] = member.request(
            "join_group",
            5,
            group_id=group,
            session_timeout_ms=10000,
            rebalance_timeout_ms=3000,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": subscription("t")}],
        ).error_code
    member_fields = {"group_id": group, "member_id": "x", "group_instance_id": None}
    shown["heartbeat"] = client.request("heartbeat", 3, generation_id=1, **member_fields).error_code
    shown["sync"] = client.request("sync_group", 3, generation_id=1, assignments=[], **member_fields).error_code
    members = [{"member_id": "x", "group_instance_id": None}]
    shown["leave"] = client.request("leave_group", 3, group_id=group, members=members).error_code
    [described] = client.request("describe_groups", 5, groups=[group], include_authorized_operations=False).groups
    shown["describe"] = described.error_code
    return shown


def all_of(broker: BrokerProcess, client: RawClient, *, lost_dir: Path | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for role, partition in roles(broker, "t", lost_dir=lost_dir).items():
        shown[role] = of_partition(client, partition)
    for role, partition in roles(broker, "__consumer_offsets", lost_dir=lost_dir).items():
        shown[f"group {role}"] = of_group(broker, client, group_of(partition))
    return shown


def epoch_of(client: RawClient, partition: int) -> int:
    [row] = [row for row in client.topic("t").partitions if row.partition_index == partition]
    return row.leader_epoch


def is_known(client: RawClient, partition: int) -> bool:
    """Tell whether the metadata say that nobody leads a partition."""
    [row] = [row for row in client.topic("t").partitions if row.partition_index == partition]
    return row.error_code == LEADER_NOT_AVAILABLE


def changed_meanwhile(broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
    """Create, extend, delete and create anew while the directory is away."""
    shown: dict[str, Any] = {}
    client.create_topic("new", PARTITIONS)
    shown["where new ones are"] = len(list(dirs_of(broker)[0].glob("new-?")))
    extended = client.request(
        "create_partitions",
        3,
        topics=[{"name": "new", "count": PARTITIONS + 2, "assignments": None}],
        timeout_ms=5000,
        validate_only=False,
    )
    shown["extended"] = extended.results[0].error_code
    client.wait_for_topic("new", PARTITIONS + 2)
    client.delete_topic("gone")
    client.create_topic("gone", PARTITIONS, retention_ms="-1")
    shown["created anew"] = [client.append("gone", batches.simple("again"), index) for index in range(PARTITIONS)]
    return shown


def after_return(broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
    """Show what is there again, and that nothing is there twice."""
    eventually(lambda: all(client.list_offset("t", -1, index).error_code == 0 for index in range(PARTITIONS)))
    for partition in range(PARTITIONS):
        group = group_of(partition)
        eventually(lambda group=group: commit(client, group) == 0)
    kept, lost = dirs_of(broker)
    strays = sorted(path.name.rpartition("-")[2] for path in lost.glob("gone-*"))
    here = {path.name for path in kept.iterdir() if path.name.startswith(("t-", "gone-", "new-"))}
    there = {path.name for path in lost.iterdir() if path.name.startswith(("t-", "gone-", "new-"))}
    return {
        "strays": strays,
        "twice": sorted(here & there),
        "ends": [client.end_offset("gone", index) for index in range(PARTITIONS)],
        "of partitions": {role: of_partition(client, partition) for role, partition in roles(broker, "t").items()},
    }


def test_a_directory_that_fails_while_it_is_served(pair: Pair) -> None:
    def fail(broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
        fill(broker, client)
        kept, lost = roles(broker, "t").values()
        away = dirs_of(broker)[1].with_suffix(".away")
        before = epoch_of(client, kept), epoch_of(client, lost)
        rows = [fetch_row(kept, 1), fetch_row(lost, 1)]
        values = fetch_values([{"topic": "t", "partitions": rows}], version=11, session_id=0, session_epoch=0)
        session = client.request("fetch", 11, **values)
        dirs_of(broker)[1].rename(away)
        eventually(lambda: is_known(client, lost), what="the failure in the metadata")
        shown = all_of(broker, client, lost_dir=away)
        shown["epochs"] = epoch_of(client, kept) - before[0], epoch_of(client, lost) - before[1]
        for epoch in (1, 2):
            answer = client.request(
                "fetch", 11, **fetch_values([], version=11, session_id=session.session_id, session_epoch=epoch)
            )
            found = {row.partition_index: row.error_code for topic in answer.responses for row in topic.partitions}
            shown[f"session {epoch}"] = answer.error_code, found.get(lost)
        shown["meanwhile"] = changed_meanwhile(broker, client)
        return shown

    shown = pair.same(fail)
    assert shown["lost"]["produce v9"] == STORAGE_ERROR
    assert shown["epochs"] == (0, 1)
    assert shown["group lost"]["commit"] == NOT_COORDINATOR
    for broker in pair.brokers:
        broker.stop()
        lost = dirs_of(broker)[1]
        assert not (lost.with_suffix(".away") / ".kafka_cleanshutdown").exists()
        if lost.exists():
            shutil.rmtree(lost)
        lost.with_suffix(".away").rename(lost)
        broker.start()
    shown = pair.same(after_return)
    assert shown["strays"] == ["stray"] * 2
    assert shown["twice"] == []


def with_one_code_for_away(shown: Any) -> Any:
    """Let 56 be 6: which of them the reference answers depends on what it learns first, the failure or the leader."""
    if isinstance(shown, dict):
        return {key: with_one_code_for_away(value) for key, value in shown.items()}
    if isinstance(shown, tuple):
        return tuple(with_one_code_for_away(value) for value in shown)
    return NOT_LEADER_OR_FOLLOWER if shown == STORAGE_ERROR else shown


def test_a_directory_that_is_away_at_the_start(pair: Pair) -> None:
    pair.both(fill)
    aways = {}
    for broker in pair.brokers:
        lost = dirs_of(broker)[1]
        broker.stop()
        aways[broker] = lost.with_suffix(".away")
        lost.rename(aways[broker])
        lost.write_bytes(b"not mounted")
        broker.start()

    def show(broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
        kept = roles(broker, "t", lost_dir=aways[broker])["kept"]
        eventually(lambda: client.list_offset("t", -1, kept).error_code == 0, what="the other directory serves")
        group = group_of(roles(broker, "__consumer_offsets", lost_dir=aways[broker])["kept"])
        eventually(lambda: commit(client, group) == 0)
        lost = roles(broker, "t", lost_dir=aways[broker])["lost"]
        eventually(lambda: is_known(client, lost), what="the directory is missed in the metadata")
        shown = all_of(broker, client, lost_dir=aways[broker])
        shown["lost"] = with_one_code_for_away(shown["lost"])
        shown["meanwhile"] = changed_meanwhile(broker, client)
        return shown

    pair.same(show)
    for broker in pair.brokers:
        broker.stop()
        lost = dirs_of(broker)[1]
        with suppress(FileNotFoundError):
            lost.unlink()
        aways[broker].rename(lost)
        broker.start()
    shown = pair.same(after_return)
    assert shown["strays"] == ["stray"] * 2
    assert shown["twice"] == []
