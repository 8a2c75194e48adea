"""Groups and transactions go from one broker to another with their directory: both read what the other has stored.

One broker makes groups of both protocols, with members, offsets and regular expressions, and transactional ids in
several states, with an offset that is committed in a transaction that is still open. The other shows the same, and the
members and producers go on there as if nothing had happened; then the first one has the directory again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess, KafkaProcess, TakeOver
from tests.harness.consumer_groups import ConsumerMember
from tests.harness.groups import Member, subscription
from tests.harness.log_dirs import wait_for_leaders
from tests.harness.offsets import commit
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import RawProducer

pytestmark = pytest.mark.jvm

PROPERTIES = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
NOT_READY = (14, 15, 16)
GROUPS = ("classic", "consumer", "simple", "emptied")
TRANSACTIONAL_IDS = ("idle", "open", "aborted", "done")


class World:
    """Clients, over whichever broker has the directory."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.client = connect(broker)
        self.topic_id = self.client.create_topic("t", 4)
        self.client.create_topic("topic-a", 2)
        protocols = [("range", subscription("t"))]
        self.classic = Member(connect(broker), "classic", protocols=protocols, session_timeout_ms=120_000)
        self.one = ConsumerMember(connect(broker), "consumer", "member-1")
        self.static = ConsumerMember(connect(broker), "consumer", "member-2", instance="instance")
        # A partition of the transaction that is open.
        self.open_partition = 0
        self.producers = {name: RawProducer(connect(broker), name, timeout_ms=600_000) for name in TRANSACTIONAL_IDS}

    def move_to(self, broker: BrokerProcess) -> None:
        """Connect everybody to another broker, once that serves them."""
        self.client = connect(broker)
        for holder in (self.classic, self.one, self.static, *self.producers.values()):
            holder.client = connect(broker)
        for topic, partitions in (("t", 4), ("topic-a", 2)):
            wait_for_leaders(broker, topic, partitions)
        for name in GROUPS:
            self._wait(lambda name=name: self.client.request("find_coordinator", 1, key=name, key_type=0))
            self._wait(lambda name=name: self.client.request("describe_groups", 5, groups=[name]).groups[0])
        for name in TRANSACTIONAL_IDS:
            self._wait(lambda name=name: self.client.request("find_coordinator", 1, key=name, key_type=1))
            self._wait(lambda name=name: self._transactions([name])[0])

    def _wait(self, ask: Callable[[], Any]) -> None:
        eventually(lambda: ask().error_code not in NOT_READY, what="coordinators")

    # --- what there is

    def fill(self) -> None:
        """Make groups and transactions of all kinds."""
        commit(self.client, "simple", "t", 17, metadata="seventeen")
        self.classic.join()
        self.classic.sync({self.classic.member_id: b"an assignment"})
        assert self.classic.commit("t", 5) == 0
        gone = Member(self.client, "emptied", protocols=self.classic.protocols)
        gone.join()
        gone.sync({gone.member_id: b""})
        assert gone.commit("t", 6) == 0
        assert gone.leave() == 0
        assert self.one.join(subscribed_topic_names=["t"], subscribed_topic_regex="topic-.*").error_code == 0
        assert self.static.join("t", server_assignor="range").error_code == 0
        eventually(self.has_settled, what="a stable consumer group", every_s=0.2)
        for name, producer in self.producers.items():
            producer.init()
            if name != "idle":
                assert producer.add("t", 0, 1) == [0, 0]
                producer.send("t", f"by {name}")
        open_one = self.producers["open"]
        assert open_one.add_group("simple") == 0
        assert open_one.commit_offsets("simple", [("t", 1, 99)]) == [0]
        assert self.producers["aborted"].finish(commit=False) == 0
        assert self.producers["done"].finish(commit=True) == 0
        eventually(lambda: self._states() == {"idle": "Empty", "open": "Ongoing", "aborted": "CompleteAbort",
                                              "done": "CompleteCommit"}, what="markers")  # fmt: skip

    def has_settled(self) -> bool:
        """Have the members of the consumer group heartbeat; tell whether it is stable and the expression resolved."""
        for member in (self.one, self.static):
            assert member.own().error_code == 0
        [group] = self.client.request("consumer_group_describe", 1, group_ids=["consumer"]).groups
        topics = {part.topic_name for row in group.members for part in row.assignment.topic_partitions}
        return bool(group.group_state == "Stable" and topics == {"t", "topic-a"})

    def _transactions(self, names: list[str]) -> list[Any]:
        return list(self.client.request("describe_transactions", 0, transactional_ids=names).transaction_states)

    def _states(self) -> dict[str, str]:
        return {row.transactional_id: row.transaction_state for row in self._transactions(list(TRANSACTIONAL_IDS))}

    # --- what is seen of it

    def seen(self) -> dict[str, Any]:
        """Show everything that must be the same whoever serves it."""
        listed = self.client.request("list_groups", 5, states_filter=[], types_filter=[])
        transactions = self.client.request("list_transactions", 1, duration_filter=-1)
        assert listed.error_code == transactions.error_code == 0
        return {
            "groups": sorted((g.group_id, g.group_type, g.group_state, g.protocol_type) for g in listed.groups),
            "classic": [self._classic(name) for name in ("classic", "emptied")],
            "consumer": self._consumer(),
            "offsets": {name: self._offsets(name) for name in GROUPS},
            "listed": sorted((t.transactional_id, t.producer_id, t.transaction_state)
                             for t in transactions.transaction_states),
            "described": [self._transaction(row) for row in self._transactions(list(TRANSACTIONAL_IDS))],
            "stable": [self.client.list_offset("t", -1, partition, isolation=1).offset for partition in range(4)],
        }  # fmt: skip

    def _classic(self, name: str) -> Any:
        [group] = self.client.request("describe_groups", 5, groups=[name]).groups
        members = [
            (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment)
            for m in group.members
        ]
        return group.error_code, group.group_state, group.protocol_type, group.protocol_data, members

    def _consumer(self) -> Any:
        [group] = self.client.request("consumer_group_describe", 1, group_ids=["consumer"]).groups
        members = sorted(
            (
                m.member_id, m.instance_id, m.member_epoch, m.client_id, m.client_host, m.subscribed_topic_names,
                m.subscribed_topic_regex, m.member_type, _partitions(m.assignment), _partitions(m.target_assignment),
            )
            for m in group.members
        )  # fmt: skip
        return group.error_code, group.group_state, group.group_epoch, group.assignment_epoch, members

    def _offsets(self, name: str) -> Any:
        asked = {"group_id": name, "member_id": None, "member_epoch": -1, "topics": None}
        [group] = self.client.request("offset_fetch", 9, groups=[asked], require_stable=False).groups
        assert group.error_code == 0, group
        return sorted(
            (topic.name, row.partition_index, row.committed_offset, row.committed_leader_epoch, row.metadata)
            for topic in group.topics
            for row in topic.partitions
        )

    def _transaction(self, row: Any) -> Any:
        topics = sorted((topic.topic, sorted(topic.partitions)) for topic in row.topics)
        return (
            row.transactional_id, row.error_code, row.transaction_state, row.transaction_timeout_ms,
            row.transaction_start_time_ms, row.producer_id, row.producer_epoch, topics,
        )  # fmt: skip

    # --- going on

    def go_on(self, offset: int) -> None:
        """Everybody does what comes next."""
        assert self.classic.heartbeat() == 0
        assert self.classic.commit("t", offset) == 0
        for member in (self.one, self.static):
            before = member.assigned
            assert member.own().error_code == 0
            assert member.assigned == before
        assert _unstable(self.client, "simple", "t", 1)
        open_one = self.producers["open"]
        open_one.send("t", "later", partition=self.open_partition)
        assert open_one.finish(commit=True) == 0
        eventually(lambda: not _unstable(self.client, "simple", "t", 1), what="the marker of the offset")
        assert (1, offset + 1) not in [(row[1], row[2]) for row in self._offsets("simple")]
        self.open_partition = 2
        assert open_one.add("t", 2) == [0]
        assert open_one.add_group("simple") == 0
        assert open_one.commit_offsets("simple", [("t", 1, offset + 1)]) == [0]
        self.producers["idle"].init()
        assert self.producers["idle"].epoch > 0


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient((broker.host, broker.port))


def _partitions(assignment: Any) -> list[Any]:
    return sorted((part.topic_name, sorted(part.partitions)) for part in assignment.topic_partitions)


def _unstable(client: RawClient, group: str, topic: str, partition: int) -> bool:
    """Tell whether an open transaction holds a commit of the partition."""
    wanted = [{"name": topic, "partition_indexes": [partition]}]
    answer = client.request("offset_fetch", 7, group_id=group, topics=wanted, require_stable=True)
    return bool(answer.topics[0].partitions[0].error_code == 88)


@pytest.mark.parametrize(
    ("first", "second"), [(BrokerProcess, KafkaProcess), (KafkaProcess, BrokerProcess)], ids=["ours", "theirs"]
)
def test_groups_and_transactions_go_to_the_other_broker_and_back(
    take_over: TakeOver, first: type[BrokerProcess], second: type[BrokerProcess]
) -> None:
    broker = take_over(first)
    world = World(broker)
    world.fill()
    for number, kind in enumerate((second, first, second)):
        before = world.seen()
        assert broker.stop() in (0, 143)
        broker = take_over(kind)
        world.move_to(broker)
        assert world.seen() == before
        world.go_on(100 * (number + 1))
    assert batches.records_of(world.client.fetch_all("t"))
