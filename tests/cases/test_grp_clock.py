"""GRP-13: the wall clock is set back and forward under members, producers and transactions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import address, check_health
from tests.harness import batches
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.groups import Member, describe, find_coordinator, subscription
from tests.harness.offsets import committed
from tests.harness.raw import RawClient
from tests.harness.shifted_clock import ShiftedClock
from tests.harness.transacting import RawProducer, find_transaction_coordinator, wait_until_decided
from tests.harness.transactions import read_committed

pytestmark = pytest.mark.skipif(reference_wanted(), reason="shifts the clock of a Python process")

HOUR_S = 3600
FENCED = 90
SESSION_MS = 6000
LONGER_THAN_A_SESSION_S = 8.0
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.retention.check.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.initial.task.delay.ms": "0",
    "group.initial.rebalance.delay.ms": "500",
}


def two_members(broker: BrokerProcess, group: str, topic: str) -> list[Member]:
    """Let two members join in the same moment."""
    members = [
        Member(RawClient(address(broker)), group, (("range", subscription(topic)),), session_timeout_ms=SESSION_MS)
        for _ in range(2)
    ]
    for member in members:
        member.start_join()
    leaders = [member.receive_join().leader for member in members]
    members.sort(key=lambda member: member.member_id == leaders[0])
    for member in members:  # the leader last
        member.send_sync({one.member_id: b"part" for one in members} if member is members[1] else None)
    assert [member.receive_sync().error_code for member in members] == [0, 0]
    return members


class Life:
    """What goes on while the clock is set."""

    def __init__(self, client: RawClient, members: list[Member], producer: RawProducer, topic: str) -> None:
        self.client, self.members, self.producer, self.topic = client, members, producer, topic
        self.count = 0

    def turn(self) -> None:
        """Heartbeats, a commit, a plain record and a whole transaction."""
        self.count += 1
        assert [member.heartbeat() for member in self.members] == [0, 0]
        assert self.members[0].commit(self.topic, self.count) == 0
        self.client.append(self.topic, batches.simple("plain", timestamp=int(time.time() * 1000)))
        assert self.producer.add(self.topic, 0) == [0]
        self.producer.send(self.topic, "in a transaction")
        assert self.producer.finish(commit=True) == 0
        wait_until_decided(self.client, self.topic)

    def go_on(self, seconds: float) -> None:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            self.turn()
            time.sleep(0.2)


def negative_values(page: str) -> list[str]:
    return [line for line in page.splitlines() if re.search(r" -[0-9]", line) and not line.startswith("#")]


def test_grp_13_the_wall_clock_is_set_back_and_forward(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess]
) -> None:
    clock = ShiftedClock(tmp_path / "clock")
    broker = broker_factory(PROPERTIES, environment=clock.environment)
    topic, group = "t", "g"
    with RawClient(address(broker)) as client:
        client.create_topic(topic, retention_ms="-1", message_timestamp_before_max_ms=str(2**62))
        client.create_topic("other", message_timestamp_before_max_ms=str(2**62))
        find_coordinator(client, group)
        at_first = negative_values(broker.http_get("/metrics"))
        members = two_members(broker, group, topic)
        generation = members[0].generation
        life = Life(client, members, RawProducer(client, "id").init(), topic)
        life.turn()
        for shift_s, outcomes in ((-HOUR_S, {0}), (HOUR_S, {0, FENCED})):  # two hours are longer than its timeout
            over = RawProducer(client, f"over{shift_s}").init()
            assert over.add("other", 0) == [0]
            over.send("other", "over the step")
            clock.set(shift_s)
            life.go_on(LONGER_THAN_A_SESSION_S)
            assert over.finish(commit=True) in outcomes
            wait_until_decided(client, "other")
            newcomer = Member(RawClient(address(broker)), f"g{shift_s}", session_timeout_ms=SESSION_MS)
            newcomer.become_stable()
            assert newcomer.heartbeat() == 0
        row = describe(client, group)
        assert (row.group_state, len(row.members)) == ("Stable", 2)
        assert {member.generation for member in members} == {generation}
        assert negative_values(broker.http_get("/metrics")) == at_first
        records = len(read_committed(client, topic))
        assert records == 2 * life.count
    broker.restart()
    with RawClient(address(broker)) as client:
        client.wait_for_topic(topic, 1)
        find_coordinator(client, group)
        find_transaction_coordinator(client, "id")
        assert len(read_committed(client, topic)) == records
        assert committed(client, group, topic)[0] == life.count
        members = two_members(broker, group, topic)
        assert members[0].generation > generation
        Life(client, members, RawProducer(client, "id").init(), topic).turn()
    check_health(broker)
