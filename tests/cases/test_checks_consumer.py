"""Conformance checks 87 to 90: consumer groups of KIP-848, by raw requests and by a stock client."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.consumer_groups import ConsumerMember
from tests.harness.groups import find_coordinator
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import RawProducer

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}
ILLEGAL_GENERATION, UNKNOWN_MEMBER, INVALID_REQUEST, NO_GROUP, FENCED_EPOCH, NO_ASSIGNOR = 22, 25, 42, 69, 110, 112
STALE_EPOCH, BAD_REGEX = 113, 128


def new_member(client: RawClient, group: str, **options: Any) -> ConsumerMember:
    return ConsumerMember(client, group, str(uuid.uuid4()), **options)


@pytest.fixture
def group(client: RawClient, fresh: Callable[..., str]) -> str:
    name = fresh("group")
    find_coordinator(client, name)
    return name


# --- 88 and 89


@pytest.mark.parametrize("version", [0, 1])
def test_check_88_a_member_that_joins_owns_nothing(
    client: RawClient, group: str, fresh: Callable[..., str], version: int
) -> None:
    topic = fresh()
    client.create_topic(topic)
    member = new_member(client, group, version=version)
    refused = member.join(topic, topic_partitions=None)
    assert (refused.error_code, refused.assignment) == (INVALID_REQUEST, None)
    assert "TopicPartitions" in refused.error_message
    admitted = member.join(topic)
    assert (admitted.error_code, admitted.error_message) == (0, None)
    assert admitted.member_epoch > 0
    assert admitted.heartbeat_interval_ms == 300
    assert member.leave().error_code == 0


BAD = {
    "epoch -3": ({"member_epoch": -3}, INVALID_REQUEST, "Epoch"),
    "an epoch of an unknown group": ({"member_epoch": 5}, NO_GROUP, "not found"),
    "leaving an unknown group": ({"member_epoch": -1}, NO_GROUP, "not found"),
    "an unknown assignor": ({"member_epoch": 0, "server_assignor": "foo"}, NO_ASSIGNOR, "uniform"),
    "no member id": ({"member_epoch": 0, "member_id": ""}, INVALID_REQUEST, "MemberId"),
    "no group id": ({"member_epoch": 0, "group_id": ""}, INVALID_REQUEST, "GroupId"),
    "a blank instance id": ({"member_epoch": 0, "instance_id": ""}, INVALID_REQUEST, "InstanceId"),
    "a blank rack": ({"member_epoch": 0, "rack_id": ""}, INVALID_REQUEST, "RackId"),
    "no rebalance timeout": ({"member_epoch": 0, "rebalance_timeout_ms": -1}, INVALID_REQUEST, "RebalanceTimeout"),
    "no subscription": ({"member_epoch": 0, "subscribed_topic_names": None}, INVALID_REQUEST, "SubscribedTopic"),
    "a pause without an instance": ({"member_epoch": -2}, INVALID_REQUEST, "InstanceId"),
    "a bad regular expression": (
        {"member_epoch": 0, "subscribed_topic_names": None, "subscribed_topic_regex": "("},
        BAD_REGEX,
        "(",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_check_89_what_a_heartbeat_may_not_say(client: RawClient, group: str, case: str) -> None:
    fields, code, word = BAD[case]
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    answer = new_member(client, group).report(**(full | fields))
    assert answer.error_code == code, answer
    assert word in answer.error_message
    assert (answer.member_epoch, answer.assignment) == (0, None)


def test_check_89_members_that_are_unknown_or_out_of_step(
    client: RawClient, group: str, fresh: Callable[..., str]
) -> None:
    topic = fresh()
    client.create_topic(topic)
    member = new_member(client, group)
    assert member.join(topic).error_code == 0
    current = member.epoch
    stranger = new_member(client, group)
    stranger.epoch = current
    assert stranger.report().error_code == UNKNOWN_MEMBER
    for epoch in (current + 1, current - 1 or current + 2):
        member.epoch = epoch
        answer = member.report()
        assert answer.error_code == FENCED_EPOCH
        assert str(epoch) in answer.error_message


# --- offsets of members


def commit(client: RawClient, group: str, topic: str, member_id: str, epoch: int, *, version: int = 9) -> int:
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    answer = client.request(
        "offset_commit",
        version,
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[{"name": topic, "partitions": [row]}],
    )
    return int(answer.topics[0].partitions[0].error_code)


def test_a_member_out_of_step_commits_nothing_in_a_transaction_or_without(
    client: RawClient, group: str, fresh: Callable[..., str]
) -> None:
    topic = fresh()
    client.create_topic(topic, 2)
    member, other = new_member(client, group), new_member(client, group)
    assert member.join(topic).error_code == 0
    current = member.epoch
    assert commit(client, group, topic, member.member_id, current) == 0
    assert commit(client, group, topic, member.member_id, current + 1) == STALE_EPOCH
    assert commit(client, group, topic, other.member_id, current) == UNKNOWN_MEMBER
    producer = RawProducer(client, fresh("txn")).init()
    assert producer.add_group(group) == 0
    for version in client.offered("txn_offset_commit", 3, 4, 5):

        def staged(version: int = version, **member: Any) -> int:
            return producer.commit_offsets(group, [(topic, 0, 5)], version=version, **member)[0]

        mine = {"member_id": member.member_id, "generation_id": current}
        assert staged(**mine) == 0
        assert staged() == 0, "a producer need not say who it is"
        assert staged(**(mine | {"generation_id": current + 1})) == ILLEGAL_GENERATION, version
        assert staged(**(mine | {"member_id": other.member_id})) == UNKNOWN_MEMBER, version
        assert staged(**(mine | {"generation_id": -1})) == ILLEGAL_GENERATION, version
    assert producer.finish(commit=True) == 0


# --- 87 and 90


class Reader:
    """A stock consumer in a thread of its own; notes what is given to it and taken from it, and when it reads."""

    lock = threading.Lock()
    """Of all readers: what one is given is compared with what the others have."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, owners: dict[int, Reader], protocol: str) -> None:
        self.read: list[tuple[int, int]] = []
        self.owned: set[int] = set()
        self.conflicts: list[str] = []
        self.revoked: set[int] = set()
        self._owners = owners
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                **({"partition.assignment.strategy": "range"} if protocol == "classic" else {}),
            }
        )
        self._consumer.subscribe([topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _given(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        with self.lock:
            for one in partitions:
                if self._owners.get(one.partition, self) is not self:
                    self.conflicts.append(f"{one.partition} has an owner")
                self._owners[one.partition] = self
                self.owned.add(one.partition)

    def _taken(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        with self.lock:
            for one in partitions:
                self._owners.pop(one.partition, None)
                self.owned.discard(one.partition)
                self.revoked.add(one.partition)

    def _run(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append((message.partition(), message.offset()))
        self._consumer.close()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


PARTITIONS = 6


def settled(owners: dict[int, Reader], readers: list[Reader]) -> bool:
    with Reader.lock:
        return len(owners) == PARTITIONS and {owners[partition] for partition in owners} == set(readers)


def test_check_87_partitions_that_stay_are_read_on_and_none_has_two_owners(
    broker: BrokerProcess, client: RawClient, group: str, fresh: Callable[..., str]
) -> None:
    topic = fresh()
    client.create_topic(topic, PARTITIONS)
    owners: dict[int, Reader] = {}
    readers = [Reader(broker, group, topic, owners, "consumer") for _ in range(2)]
    late: Reader | None = None
    try:
        eventually(lambda: settled(owners, readers), what="two owners")
        before = [set(reader.owned) for reader in readers]
        for reader in readers:
            reader.revoked.clear()
        late = Reader(broker, group, topic, owners, "consumer")
        eventually(lambda: settled(owners, [*readers, late]), what="three owners")
        for reader, owned in zip(readers, before, strict=True):
            assert reader.revoked == owned - reader.owned, "only what goes to the newcomer is taken"
            assert len(reader.owned) == 2
        late.stop()
        eventually(lambda: settled(owners, readers), what="two owners again")
        for partition in range(PARTITIONS):
            client.append(topic, batches.simple("v"), partition)
        wanted = [(partition, 0) for partition in range(PARTITIONS)]
        eventually(lambda: sorted(readers[0].read + readers[1].read) == wanted, what="all records, once")
    finally:
        for reader in (*readers, *([late] if late is not None else [])):
            reader.stop()
    assert [reader.conflicts for reader in (*readers, late)] == [[], [], []]


def test_check_90_members_of_both_protocols_share_a_group(
    broker: BrokerProcess, client: RawClient, group: str, fresh: Callable[..., str]
) -> None:
    topic = fresh()
    client.create_topic(topic, PARTITIONS)
    owners: dict[int, Reader] = {}
    readers = [Reader(broker, group, topic, owners, "classic")]
    try:
        eventually(lambda: settled(owners, readers), what="the first owner")
        readers.append(Reader(broker, group, topic, owners, "consumer"))
        eventually(lambda: settled(owners, readers), what="an owner of each protocol")
        [row] = [row for row in client.request("list_groups", 5).groups if row.group_id == group]
        assert row.group_type == "consumer"
    finally:
        for reader in readers:
            reader.stop()
