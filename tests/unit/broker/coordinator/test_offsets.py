"""Offsets: what is stored, what expires and when, and what a transaction has yet to decide."""

import asyncio

import pytest

from broker.coordinator.group.offsets import FetchTopic, GroupOffsets
from broker.coordinator.group.records import CommittedOffset, OffsetKey
from broker.coordinator.group.shard import GroupShard
from broker.coordinator.shard import Outcome
from protocol.uuids import ZERO_UUID
from tests.sim.groups import GroupRig, settle
from tests.sim.members import SimMember

MINUTE_MS = 60_000


async def test_offsets_of_a_simple_group_expire_after_their_commit_and_the_group_with_them() -> None:
    rig = GroupRig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=5000)
    await rig.commit("g", 1)
    await rig.time.advance(45_000)
    assert await rig.committed("g") == {("t", 0): 1}
    await rig.commit("g", 2, partition=1)
    await rig.time.advance(20_000)
    assert await rig.committed("g") == {("t", 1): 2}
    await rig.time.advance(45_000)
    for current in (rig, rig.restarted()):
        assert await current.committed("g") == {}
        assert list(current.coordinator.groups()) == []


async def test_a_commit_may_bring_its_own_retention() -> None:
    rig = GroupRig(offsets_retention_minutes=100, offsets_retention_check_interval_ms=1000)
    await rig.commit("g", 1, retention_time_ms=5000)
    await rig.commit("g", 2, partition=1)
    await rig.time.advance(4500)
    rig = rig.restarted(offsets_retention_minutes=100, offsets_retention_check_interval_ms=1000)
    assert len(await rig.committed("g")) == 2
    await rig.time.advance(2000)
    assert await rig.committed("g") == {("t", 1): 2}


async def test_offsets_of_subscribed_topics_of_a_live_group_never_expire_also_over_a_restart() -> None:
    rig = GroupRig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=5000)
    member = SimMember(rig)
    member.start()
    await rig.time.advance(1000)
    for topic in ("t", "u"):
        await rig.commit("g", 7, topic=topic, generation_id=1, member_id=member.member_id)
    await rig.time.advance(50_000)
    assert len(await rig.committed("g")) == 2
    member.rig = rig.restarted(offsets_retention_minutes=1, offsets_retention_check_interval_ms=5000)
    await rig.time.advance(90_000)
    assert await member.rig.committed("g") == {("t", 0): 7}, "u is not subscribed to"


async def test_offsets_of_a_group_that_became_empty_expire_from_then_on() -> None:
    rig = GroupRig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=5000)
    member = SimMember(rig)
    member.start()
    await rig.time.advance(1000)
    await rig.commit("g", 7, generation_id=1, member_id=member.member_id)
    await rig.time.advance(40_000)
    await member.leave()
    await rig.time.advance(10_000)
    rig = rig.restarted(offsets_retention_minutes=1, offsets_retention_check_interval_ms=5000)
    await rig.time.advance(45_000)
    assert await rig.committed("g") == {("t", 0): 7}
    await rig.time.advance(15_000)
    assert await rig.committed("g") == {}
    assert list(rig.coordinator.groups()) == []


async def test_an_empty_group_without_offsets_is_removed_but_not_while_somebody_is_in_it() -> None:
    rig = GroupRig(offsets_retention_check_interval_ms=1000)
    member = SimMember(rig)
    member.start()
    await rig.time.advance(5000)
    assert len(list(rig.coordinator.groups())) == 1
    await member.leave()
    await rig.time.advance(2000)
    for current in (rig, rig.restarted()):
        assert list(current.coordinator.groups()) == []


async def test_a_topic_with_offsets_in_very_many_groups_is_forgotten_in_bounded_batches() -> None:
    rig = GroupRig(partition_count=1)
    rig.coordinator._runtime._writer._max_batch_bytes = 2000
    for n in range(100):
        await rig.commit(f"group-{n}", n)
    before = rig.log.batch_count()
    rig.coordinator.on_topics_deleted(["t"])
    await settle()
    await settle()
    assert rig.log.batch_count() > before + 2
    assert rig.coordinator._runtime.read(0).offsets.group_ids() == []
    assert [group.state.value for group in rig.coordinator.groups()] == ["Empty"] * 100


# -- transactions ----------------------------------------------------------------------------------------------------


def committed(offset: int, record_offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0, record_offset=record_offset)


def fetched(offsets: GroupOffsets, *, require_stable: bool) -> tuple[int, bool]:
    [topic] = offsets.fetch("g", [FetchTopic("t", ZERO_UUID, [0])], require_stable=require_stable)
    return topic.partitions[0].offset, topic.partitions[0].is_unstable


def test_a_transactional_commit_shows_only_once_it_is_decided() -> None:
    offsets = GroupOffsets()
    key = OffsetKey("g", "t", 0)
    offsets.replay(key, committed(1, 0), -1)
    offsets.replay(key, committed(2, 1), 9)
    assert fetched(offsets, require_stable=False) == (1, False)
    assert fetched(offsets, require_stable=True) == (-1, True)
    assert offsets.fetch_all("g", require_stable=True)[0].partitions[0].is_unstable
    offsets.replay_end_transaction(9, is_commit=True)
    assert fetched(offsets, require_stable=True) == (2, False)
    assert not offsets.has_open_transactions("g")


def test_an_aborted_commit_never_shows() -> None:
    offsets = GroupOffsets()
    offsets.replay(OffsetKey("g", "t", 0), committed(2, 1), 9)
    offsets.replay_end_transaction(9, is_commit=False)
    offsets.replay_end_transaction(9, is_commit=True)
    assert fetched(offsets, require_stable=True) == (-1, False)
    assert not offsets.has_offsets("g")


@pytest.mark.parametrize(("plain_at", "expected"), [(0, 2), (5, 1)])
def test_of_a_plain_and_a_transactional_commit_the_later_in_the_log_stays(plain_at: int, expected: int) -> None:
    offsets = GroupOffsets()
    key = OffsetKey("g", "t", 0)
    offsets.replay(key, committed(2, 3), 9)
    offsets.replay(key, committed(1, plain_at), -1)
    offsets.replay_end_transaction(9, is_commit=True)
    assert fetched(offsets, require_stable=True) == (expected, False)


def test_a_tombstone_also_ends_pending_commits() -> None:
    offsets = GroupOffsets()
    key = OffsetKey("g", "t", 0)
    offsets.replay(key, committed(1, 0), 9)
    assert len(list(offsets.tombstones_of_group("g"))) == 1
    assert len(list(offsets.tombstones_of_topics(frozenset({"t"})))) == 1
    offsets.replay(key, None, -1)
    offsets.replay_end_transaction(9, is_commit=True)
    assert fetched(offsets, require_stable=True) == (-1, False)


async def test_the_loop_goes_on_between_partitions_whose_offsets_are_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = GroupRig(partition_count=4)
    turns = 0
    looked_at: list[int] = []

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def look(shard: GroupShard) -> Outcome[None]:
        looked_at.append(turns)
        return Outcome(None)

    monkeypatch.setattr(GroupShard, "expire_offsets", look)
    counting = asyncio.ensure_future(count_turns())
    await rig.coordinator.expire_offsets()
    counting.cancel()
    assert len(set(looked_at)) == 4
