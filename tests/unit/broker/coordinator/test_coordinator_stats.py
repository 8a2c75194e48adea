"""What coordinators count, and what becomes of groups when their topic is deleted."""

import asyncio

import pytest

from broker.coordinator.errors import GroupIdNotFound
from broker.coordinator.internal_topics import GROUP_METADATA_TOPIC
from broker.metadata.image import ClusterImage, Delta, full_delta
from config.views import ConsumerGroupConfig, GroupSettings
from protocol.errors import ErrorCode
from tests.sim.consumer_members import SimConsumer
from tests.sim.groups import NODE_ID, GroupRig, MemoryLog, settle, topic_image
from tests.sim.members import join_request


def make_rig() -> GroupRig:
    settings = GroupSettings(45_000, 5_000, 0)
    return GroupRig(consumer=ConsumerGroupConfig(defaults=settings, lowest=GroupSettings(1, 1, 0)))


async def test_rebalances_are_counted_by_kind() -> None:
    rig = make_rig()
    one, two = SimConsumer(rig, "m1"), SimConsumer(rig, "m2")
    await one.step()
    await two.step()
    await two.leave()
    assert rig.coordinator.group_stats.rebalances == {"consumer": 3, "classic": 0}
    assert [group.state.value for group in rig.coordinator.groups()] == ["Assigning"]


async def test_commits_deletions_and_expirations_are_counted_by_offset() -> None:
    rig = make_rig()
    stats = rig.coordinator.group_stats
    for partition in range(3):
        await rig.commit("g", 5, partition=partition)
    await rig.commit("h", 5)
    assert (stats.commits, stats.deletions, stats.expirations) == (4, 0, 0)
    await rig.coordinator.delete_offsets("g", [("t", 0), ("t", 9)])
    assert stats.deletions == 1
    await rig.coordinator.delete_groups(["h"])
    assert stats.deletions == 2
    rig.time.wall_offset_ms += rig.config.offsets_retention_minutes * 60_000
    await rig.coordinator.expire_offsets()
    assert stats.expirations == 2


async def test_loads_writes_and_waits_are_measured() -> None:
    rig = make_rig()
    stats = rig.coordinator.stats
    assert sum(stats.load_seconds.counts) == rig.partition_count
    rig.log.stall = asyncio.Event()
    commits = [asyncio.ensure_future(rig.commit("g", n)) for n in range(3)]
    await settle()
    rig.log.stall.set()
    await asyncio.gather(*commits)
    assert sum(stats.write_seconds.counts) == 2, "the first, and those that waited for it"
    assert sum(stats.queue_seconds.counts) == 2


async def test_a_partition_that_cannot_be_loaded_is_counted() -> None:
    log = MemoryLog()
    log.batches[1] = [b"not a batch"]
    rig = GroupRig(log=log)
    assert rig.coordinator.stats.failed_loads == 1
    assert rig.coordinator.count_partitions() == {"active": 3, "failed": 1}


# -- the topic goes --------------------------------------------------------------------------------------------------


def with_topic() -> ClusterImage:
    topic = topic_image(GROUP_METADATA_TOPIC, bytes(15) + b"\x09", 4)
    return ClusterImage("cluster", {topic.name: topic}, {topic.topic_id: topic})


async def test_without_their_topic_groups_are_gone_and_with_a_new_one_they_begin_anew() -> None:
    rig = GroupRig(is_started=False, initial_rebalance_delay_ms=3_000)
    rig.coordinator._node_id = NODE_ID  # which leads the topic
    there, gone = with_topic(), ClusterImage("cluster", {}, {})
    rig.coordinator.publish(full_delta(there), there)
    assert await rig.commit("g", 5) == [ErrorCode.NONE]
    parked = rig.start(join_request("h"), 3)
    await settle()
    assert not parked.done()
    rig.coordinator.publish(Delta(deleted_topics=tuple(there.topics_by_name.values())), gone)
    assert (await parked).error_code == ErrorCode.NOT_COORDINATOR
    assert rig.coordinator.has_no_topic
    assert not rig.coordinator.is_led("g")
    with pytest.raises(GroupIdNotFound):
        rig.coordinator.group("g")
    rig.log.batches.clear()
    rig.coordinator.publish(full_delta(there), there)
    assert rig.coordinator.is_led("g")
    with pytest.raises(GroupIdNotFound):
        rig.coordinator.group("g")
