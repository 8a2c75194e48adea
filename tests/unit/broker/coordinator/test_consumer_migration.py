"""Groups whose members speak both protocols, and the way from one to the other and back."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.subscription import assignment_bytes, parse_assignment
from config.views import ConsumerGroupConfig, GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.stored.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from protocol.stored.framing import encode_versioned
from tests.sim.consumer_members import SimConsumer
from tests.sim.groups import GroupRig, settle

CONFIG = ConsumerGroupConfig(defaults=GroupSettings(45_000, 5_000, 0))


class Classic:
    """A cooperative member of the classic protocol, one request at a time."""

    def __init__(self, rig: GroupRig, name: str = "c", *, instance_id: str | None = None, protocol: str = "range"):
        self.rig = rig
        self.name = name
        self.instance_id = instance_id
        self.protocol = protocol
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []

    def metadata(self) -> bytes:
        owned = [ConsumerProtocolSubscriptionTopicPartition(topic="t", partitions=self.owned)] if self.owned else []
        return encode_versioned(ConsumerProtocolSubscription(topics=["t"], owned_partitions=owned), 1)

    def send_join(self) -> Any:
        return self.rig.start(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name=self.protocol, metadata=self.metadata())],
            ),
            9,
        )

    async def join(self) -> Any:
        answer = await self._answered()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = await self._answered()
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def _answered(self) -> Any:
        parked = self.send_join()
        await self.rig.time.advance(0)  # the initial rebalance delay, even of no length, is a deadline
        return await parked

    async def sync(self, *leads: tuple[str, list[int]]) -> Any:
        answer = await self.rig.call(
            SyncGroupRequest(
                group_id="g",
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name=self.protocol,
                assignments=[
                    SyncGroupRequestAssignment(
                        member_id=member_id, assignment=assignment_bytes({"t": numbers}, like=self.metadata())
                    )
                    for member_id, numbers in leads
                ],
            ),
            5,
        )
        if not answer.error_code:
            parts = parse_assignment(answer.assignment).assigned_partitions if answer.assignment else []
            self.owned = sorted(p for part in parts for p in part.partitions)
        return answer

    async def heartbeat(self) -> int:
        request = HeartbeatRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return int((await self.rig.call(request, 4)).error_code)

    async def catch_up(self) -> None:
        """Rejoin for as long as heartbeats ask for it."""
        for _ in range(5):
            if await self.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
                return
            assert not (await self.join()).error_code
            assert not (await self.sync()).error_code


async def classic_group(rig: GroupRig, **options: Any) -> Classic:
    member = Classic(rig, **options)
    await member.join()
    await member.sync((member.member_id, [0, 1, 2]))
    assert member.owned == [0, 1, 2]
    return member


async def test_a_group_goes_up_with_the_first_new_member_and_down_with_the_last() -> None:
    rig = GroupRig(consumer=CONFIG)
    old = await classic_group(rig)
    generation = old.generation
    new = SimConsumer(rig, "new")
    assert (await new.step()).error_code == 0
    assert new.epoch == generation + 1 and new.wanted == {}
    assert isinstance(rig.coordinator.group("g"), ConsumerGroup)
    for _ in range(3):
        await old.catch_up()
        await new.step()
    assert sorted((*old.owned, *new.numbers())) == [0, 1, 2] and old.owned and new.numbers()
    assert await old.heartbeat() == 0
    await new.leave()
    assert isinstance(rig.coordinator.group("g"), ClassicGroup)
    assert await old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    await old.join()
    await old.sync((old.member_id, [0, 1, 2]))
    assert old.generation > generation + 1 and old.owned == [0, 1, 2]
    again = rig.restarted()
    group = again.coordinator.group("g")
    assert isinstance(group, ClassicGroup) and group.generation_id == old.generation


async def test_the_log_names_members_of_either_protocol_once_as_they_join(caplog: pytest.LogCaptureFixture) -> None:
    rig = GroupRig(consumer=CONFIG)
    with caplog.at_level("INFO"):
        new, old = SimConsumer(rig, "new"), Classic(rig)
        await new.step()
        await old.join()
        await old.join()
        await new.step()
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("member joins")]
    assert told == [f"member joins group=g member={member_id}" for member_id in (new.member_id, old.member_id)]


async def test_a_mixed_group_survives_a_restart() -> None:
    rig = GroupRig(consumer=CONFIG)
    old = await classic_group(rig)
    new = SimConsumer(rig, "new")
    await new.step()
    rig = old.rig = new.rig = rig.restarted(consumer=CONFIG)
    for _ in range(3):
        await old.catch_up()
        await new.step()
    assert sorted((*old.owned, *new.numbers())) == [0, 1, 2] and old.owned and new.numbers()


async def test_parked_members_are_sent_to_join_again() -> None:
    rig = GroupRig(consumer=CONFIG)
    old = await classic_group(rig)
    other = Classic(rig, "other")
    other.member_id = (await other.send_join()).member_id
    parked = other.send_join()
    await settle()
    assert not parked.done()
    assert (await SimConsumer(rig, "new").step()).error_code == 0
    assert (await parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert await old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_classic_member_is_removed_by_its_own_timeouts() -> None:
    rig = GroupRig(consumer=CONFIG)
    old = await classic_group(rig)
    new = SimConsumer(rig, "new")
    await new.step()
    assert await old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(4):
        await rig.time.advance(5_000)
        await new.step()
        assert await old.heartbeat() in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
    await new.step()
    await new.step()
    assert new.numbers() == [0, 1, 2], "it did not join within its rebalance timeout of 20 s"
    assert await old.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_classic_member_takes_the_last_static_place_and_the_group_is_classic() -> None:
    rig = GroupRig(consumer=CONFIG)
    new = SimConsumer(rig, "new", instance_id="a")
    await new.step()
    await new.step()
    old = Classic(rig, instance_id="a")
    answer = await old.join()
    assert (answer.error_code, answer.protocol_name) == (0, "range")
    group = rig.coordinator.group("g")
    assert isinstance(group, ClassicGroup) and list(group.members) == [old.member_id]
    assert (await old.sync()).error_code == 0
    assert old.owned == [0, 1, 2]


async def test_an_empty_group_of_one_kind_becomes_one_of_the_other_and_keeps_its_offsets() -> None:
    rig = GroupRig(consumer=CONFIG)
    await rig.commit("g", 7)
    new = SimConsumer(rig, "new")
    await new.step()
    assert isinstance(rig.coordinator.group("g"), ConsumerGroup)
    await new.leave()
    await classic_group(rig)
    assert isinstance(rig.coordinator.group("g"), ClassicGroup)
    assert await rig.committed("g") == {("t", 0): 7}
    assert isinstance(rig.restarted().coordinator.group("g"), ClassicGroup)


@pytest.mark.parametrize(
    ("config", "protocol_type", "reason"),
    [
        (CONFIG._replace(allows_upgrade=False), "consumer", "online upgrade is disabled"),
        (CONFIG._replace(max_size=0), "consumer", "the group size exceeds the consumer group maximum size"),
        (CONFIG, "connect", "the group does not use the consumer embedded protocol"),
    ],
)
async def test_upgrades_that_are_refused(config: ConsumerGroupConfig, protocol_type: str, reason: str) -> None:
    rig = GroupRig(consumer=config)
    old = await classic_group(rig)
    group = rig.coordinator.group("g")
    assert isinstance(group, ClassicGroup)
    group.protocol_type = protocol_type
    answer = await SimConsumer(rig, "new").step()
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group because {reason}."
    assert await old.heartbeat() == 0


async def test_classic_members_commit_by_their_generation_and_may_leave() -> None:
    rig = GroupRig(consumer=CONFIG)
    old = await classic_group(rig)
    new = SimConsumer(rig, "new")
    await new.step()
    for _ in range(3):
        await old.catch_up()
        await new.step()

    async def commit(generation: int) -> int:
        partition = OffsetCommitRequestPartition(partition_index=old.owned[0], committed_offset=3)
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=generation,
            member_id=old.member_id,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        return int((await rig.call(request, 8)).topics[0].partitions[0].error_code)

    assert await commit(old.generation) == 0
    assert await commit(old.generation + 1) == ErrorCode.ILLEGAL_GENERATION
    leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=old.member_id)])
    assert (await rig.call(leaving, 5)).members[0].error_code == 0
    await new.step()
    await new.step()
    assert new.numbers() == [0, 1, 2]
