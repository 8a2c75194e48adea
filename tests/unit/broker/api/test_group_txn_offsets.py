"""TxnOffsetCommit: who may commit in a transaction, what is pending, and what its end makes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.coordinator.internal_topics import partition_for
from broker.partition.errors import NotLeader
from broker.partition.partition import Marker
from broker.partition.verification import Flow, Writer
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.batch import parse_header
from storage.types import TopicPartition
from tests.sim.groups import GroupRig, StorageDown, settle
from tests.sim.members import join_request, sync_request

E = ErrorCode
PID, EPOCH = 7, 3
UNSTABLE = (-1, E.UNSTABLE_OFFSET_COMMIT)
VERSIONS = range(6)


async def commit(
    rig: GroupRig, offset: int, *, partition: int = 0, topic: str = "t", version: int = 3, metadata: str | None = "m",
    group: str = "g", **fields: Any,
) -> int:  # fmt: skip
    """Commit one offset in a transaction; gives the partition's code."""
    row = TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=4, committed_metadata=metadata
    )
    request = TxnOffsetCommitRequest(
        **{"transactional_id": "id", "group_id": group, "producer_id": PID, "producer_epoch": EPOCH, "member_id": ""}
        | fields,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
    )
    response = await rig.call(request, version)
    return int(response.topics[0].partitions[0].error_code)


async def plain_commit(rig: GroupRig, offset: int, partition: int = 0) -> None:
    row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[row])], generation_id_or_member_epoch=-1
    )
    response = await rig.call(request, 8)
    assert response.topics[0].partitions[0].error_code == 0


async def fetch(rig: GroupRig, partition: int = 0, *, stable: bool = False) -> tuple[int, int]:
    named = [OffsetFetchRequestTopic(name="t", partition_indexes=[partition])]
    response = await rig.call(OffsetFetchRequest(group_id="g", topics=named, require_stable=stable), 7)
    row = response.topics[0].partitions[0]
    return row.committed_offset, row.error_code


async def end(rig: GroupRig, *, commit: bool, producer_id: int = PID) -> None:
    marker = Marker(producer_id, EPOCH, commit, 0, 0)
    await rig.coordinator.end_transaction(partition_for("g", rig.partition_count), marker)


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_count_once_the_transaction_has_committed(version: int) -> None:
    rig = GroupRig()
    await plain_commit(rig, 10)
    assert await commit(rig, 20, version=version) == 0
    assert await fetch(rig) == (10, 0)
    assert await fetch(rig, stable=True) == UNSTABLE
    assert await fetch(rig, 1, stable=True) == (-1, 0)
    await end(rig, commit=True)
    assert await fetch(rig, stable=True) == (20, 0)
    assert await commit(rig, 30, version=version) == 0
    await end(rig, commit=False)
    assert await fetch(rig, stable=True) == (20, 0)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_plain_commit_after_the_pending_one_wins(is_restarted: bool) -> None:
    rig = GroupRig()
    await commit(rig, 40)
    await plain_commit(rig, 35)
    assert await fetch(rig, stable=True) == UNSTABLE
    if is_restarted:
        rig = rig.restarted()
    await end(rig, commit=True)
    assert await fetch(rig, stable=True) == (35, 0)
    assert await fetch(rig.restarted(), stable=True) == (35, 0)


@pytest.mark.parametrize(("is_commit", "left"), [(True, (20, 0)), (False, (10, 0))])
async def test_everything_is_as_before_after_a_restart(is_commit: bool, left: tuple[int, int]) -> None:
    rig = GroupRig()
    await plain_commit(rig, 10)
    await commit(rig, 20)
    rig = rig.restarted()
    assert await fetch(rig, stable=True) == UNSTABLE
    await end(rig, commit=is_commit)
    assert await fetch(rig, stable=True) == left
    assert await fetch(rig.restarted(), stable=True) == left


async def test_a_pending_commit_makes_the_group_exist_and_another_producer_s_end_means_nothing() -> None:
    rig = GroupRig()
    assert await commit(rig, 5) == 0
    assert rig.coordinator.group("g").is_empty
    await end(rig, commit=True, producer_id=PID + 1)
    assert await fetch(rig, stable=True) == UNSTABLE
    await end(rig, commit=False)
    assert await fetch(rig, stable=True) == (-1, 0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_transaction_is_verified_in_the_way_of_the_version(version: int) -> None:
    rig = GroupRig()
    flow = Flow.ADDS if version == 5 else Flow.ABORTABLE if version == 4 else Flow.ADDED_BEFORE
    await commit(rig, 5, version=version)
    tp = TopicPartition("__consumer_offsets", partition_for("g", rig.partition_count))
    assert rig.verifier.asked == [(Writer("id", PID, EPOCH, flow), {tp: -1})]
    assert rig.log.verifications == [rig.verifier.verification]


async def test_records_carry_the_producer_and_belong_to_its_transaction() -> None:
    rig = GroupRig()
    await commit(rig, 5)
    ((data,),) = rig.log.batches.values()
    header = parse_header(data)
    assert header.is_transactional and not header.is_control
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PID, EPOCH, 0)


@pytest.mark.parametrize(
    "code",
    [E.INVALID_TXN_STATE, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_ID_MAPPING, E.CONCURRENT_TRANSACTIONS],
)
async def test_what_could_not_be_verified_is_not_stored(code: ErrorCode) -> None:
    rig = GroupRig()
    rig.verifier.refusal = code
    assert await commit(rig, 5) == code
    assert not rig.log.batch_count()
    rig.verifier.refusal = None
    assert await fetch(rig, stable=True) == (-1, 0)


async def test_loading_has_another_name_for_the_oldest_producers() -> None:
    rig = GroupRig()
    rig.verifier.refusal = E.COORDINATOR_LOAD_IN_PROGRESS
    codes = [await commit(rig, 5, version=version) for version in VERSIONS]
    assert codes == [E.COORDINATOR_NOT_AVAILABLE] * 2 + [E.COORDINATOR_LOAD_IN_PROGRESS] * 4


async def test_partitions_that_do_not_exist_and_long_metadata_are_refused_alone() -> None:
    rig = GroupRig()
    assert await commit(rig, 5, partition=9) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(rig, 5, topic="nowhere") == E.UNKNOWN_TOPIC_OR_PARTITION
    assert not rig.verifier.asked
    assert await commit(rig, 5, metadata="m" * 4097) == E.OFFSET_METADATA_TOO_LARGE
    assert await commit(rig, 5, metadata=None) == 0


async def test_a_group_has_a_name() -> None:
    assert await commit(GroupRig(), 5, group="") == E.INVALID_GROUP_ID


async def test_without_an_offsets_topic_the_first_commit_creates_it() -> None:
    rig = GroupRig(is_started=False)
    assert await commit(rig, 5) == 0
    assert rig.created == ["__consumer_offsets"]


async def test_members_are_checked_if_they_say_who_they_are() -> None:
    rig = GroupRig()
    assert await commit(rig, 5, generation_id=3) == E.ILLEGAL_GENERATION
    joining = rig.start(join_request(), 3)
    await rig.time.advance(0)
    member_id, generation = (await joining).member_id, 1
    # Between two generations too: a consumer ends its part of the old one there.
    assert await commit(rig, 5, generation_id=generation, member_id=member_id) == 0
    await rig.call(sync_request(generation, member_id, {}), 5)
    assert await commit(rig, 6, generation_id=generation, member_id=member_id) == 0
    assert await commit(rig, 6, generation_id=generation + 1, member_id=member_id) == E.ILLEGAL_GENERATION
    assert await commit(rig, 6, generation_id=generation, member_id="somebody") == E.UNKNOWN_MEMBER_ID
    assert await commit(rig, 6, member_id="somebody") == E.UNKNOWN_MEMBER_ID
    assert await commit(rig, 6, group_instance_id="somebody") == E.UNKNOWN_MEMBER_ID
    assert await commit(rig, 7) == 0
    await end(rig, commit=True)
    assert await fetch(rig, stable=True) == (7, 0)


async def test_a_failed_write_leaves_nothing_pending() -> None:
    rig = GroupRig()
    rig.log.failure = StorageDown()
    assert await commit(rig, 5) == E.NOT_COORDINATOR
    rig.log.failure = None
    assert await fetch(rig, stable=True) == (-1, 0)


async def test_a_marker_comes_after_the_commits_that_were_before_it() -> None:
    rig = GroupRig()
    rig.log.stall = asyncio.Event()
    committing = asyncio.create_task(commit(rig, 5))
    await settle()
    ending = asyncio.create_task(end(rig, commit=True))
    await settle()
    assert not committing.done() and not ending.done()
    rig.log.stall.set()
    await ending
    assert committing.done() and await committing == 0
    assert await fetch(rig, stable=True) == (5, 0)


async def test_a_marker_that_cannot_be_written_ends_nothing_and_says_why() -> None:
    rig = GroupRig()
    await commit(rig, 5)
    rig.log.failure = StorageDown()
    with pytest.raises(StorageDown):
        await end(rig, commit=True)
    rig.log.failure = None
    assert await fetch(rig, stable=True) == UNSTABLE


async def test_a_coordinator_that_is_not_ready_takes_no_markers() -> None:
    rig = GroupRig(is_started=False)
    with pytest.raises(NotLeader):
        await end(rig, commit=True)


async def test_deleting_a_group_drops_what_is_pending() -> None:
    rig = GroupRig()
    await commit(rig, 5)
    deleted = await rig.call(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert deleted.results[0].error_code == 0
    for one in (rig, rig.restarted()):
        assert await fetch(one, stable=True) == (-1, 0)
    await end(rig, commit=True)
    assert await fetch(rig, stable=True) == (-1, 0)
    assert await fetch(rig.restarted(), stable=True) == (-1, 0)


async def test_deleting_a_topic_drops_what_is_pending_of_it() -> None:
    rig = GroupRig()
    await commit(rig, 5)
    await commit(rig, 6, topic="u")
    rig.coordinator.on_topics_deleted(["t"])
    await settle()
    await end(rig, commit=True)
    assert await fetch(rig, stable=True) == (-1, 0)
    committed = await rig.coordinator.fetch_offsets("g", None, require_stable=True)
    assert [topic.topic for topic in committed] == ["u"]


async def test_neither_pending_commits_nor_what_they_replace_expire() -> None:
    rig = GroupRig(offsets_retention_minutes=1)
    await plain_commit(rig, 10)
    await commit(rig, 20)
    await rig.time.advance(120_000)
    await rig.coordinator.expire_offsets()
    await settle()
    assert await fetch(rig) == (10, 0)
    await end(rig, commit=False)
    await rig.coordinator.expire_offsets()
    await settle()
    assert await fetch(rig) == (-1, 0)
