"""One partition: who may write and read, and how the high watermark follows."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from broker.partition.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeader,
    PartitionOffline,
    UnknownLeaderEpoch,
)
from broker.partition.isr import high_watermark
from broker.partition.partition import READ_COMMITTED, READ_UNCOMMITTED
from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from storage.types import AppendOrigin
from tests.harness.hosted import NODE_ID, NOW_MS, OTHER_ID, Hosted
from tests.harness.wakes import Wakes


def batch(value: bytes = b"v", **options: Any) -> bytearray:
    return build_batch([(b"k", value)], timestamp=NOW_MS, **options)


def test_the_high_watermark_follows_the_log_end_while_we_are_alone_in_sync() -> None:
    assert high_watermark((NODE_ID,), NODE_ID, current=3, log_end_offset=9) == 9
    assert high_watermark((NODE_ID, OTHER_ID), NODE_ID, current=3, log_end_offset=9) == 3
    assert high_watermark((), NODE_ID, current=3, log_end_offset=9) == 3


def test_an_append_is_visible_when_it_returns_and_wakes_whoever_waits(hosted: Hosted) -> None:
    partition = hosted.create("t")
    waiter = Wakes()
    partition.waiters.add(waiter)
    data = batch()
    result = partition.append(data)
    assert (result.base_offset, result.last_offset, result.is_duplicate) == (0, 0, False)
    assert partition.bound(READ_UNCOMMITTED) == partition.bound(READ_COMMITTED) == 1
    assert waiter.changed == {partition}
    assert (partition.stats.messages_in, partition.stats.bytes_in) == (1, len(data))


def test_with_another_replica_in_sync_nothing_is_visible_yet(hosted: Hosted) -> None:
    partition = hosted.create("t", replicas=(NODE_ID, OTHER_ID))
    waiter = Wakes()
    partition.waiters.add(waiter)
    partition.append(batch())
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 0)
    assert not waiter.changed
    hosted.lead("t", NODE_ID, epoch=1, isr=(NODE_ID,))
    assert partition.log.high_watermark == 1
    assert waiter.changed == {partition}


def test_a_duplicate_counts_once_and_wakes_nobody(hosted: Hosted) -> None:
    partition = hosted.create("t")
    numbered = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    partition.append(batch(**numbered))
    waiter = Wakes()
    partition.waiters.add(waiter)
    assert partition.append(batch(**numbered)).is_duplicate
    assert partition.stats.messages_in == 1
    assert not waiter.changed


def test_only_the_leader_in_the_clients_epoch_serves(hosted: Hosted) -> None:
    partition = hosted.create("t", epoch=4)
    partition.ensure_leader()
    partition.ensure_leader(4)
    with pytest.raises(FencedLeaderEpoch):
        partition.ensure_leader(3)
    with pytest.raises(UnknownLeaderEpoch):
        partition.ensure_leader(5)
    hosted.lead("t", OTHER_ID, epoch=5)
    assert not partition.is_leader
    with pytest.raises(NotLeader) as raised:
        partition.append(batch())
    assert (raised.value.leader_id, raised.value.leader_epoch) == (OTHER_ID, 5)
    with pytest.raises(NotLeader):
        partition.ensure_leader()
    assert partition.log.log_end_offset == 0


def test_each_of_our_epochs_begins_at_the_log_end(hosted: Hosted) -> None:
    partition = hosted.create("t", epoch=0)
    partition.append(batch())
    hosted.lead("t", NODE_ID, epoch=2)
    partition.append(batch())
    assert partition.log.epoch_entries() == [(0, 0), (2, 1)]


def test_acks_all_needs_the_minimum_in_sync_but_coordinators_and_other_acks_do_not(hosted: Hosted) -> None:
    two = LogConfig(min_insync_replicas=2)
    partition = hosted.create("t", config=two, replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))
    with pytest.raises(NotEnoughReplicas, match=r"ISR Set\(1\) is insufficient .* min\.isr requirement of 2 .* t-0"):
        partition.append(batch(), acks=-1)
    assert partition.append(batch(), acks=1).base_offset == 0
    assert partition.append(batch(), origin=AppendOrigin.COORDINATOR).base_offset == 1


def test_the_minimum_in_sync_is_never_more_than_the_replicas_there_are(hosted: Hosted) -> None:
    partition = hosted.create("t", config=LogConfig(min_insync_replicas=2))
    assert partition.append(batch(), acks=-1).base_offset == 0


@pytest.mark.pure
def test_a_disk_that_fails_an_append_is_not_asked_again(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = hosted.create("t", partitions=2)
    neighbour = hosted.manager.get("t", 1)
    waiter = Wakes()
    neighbour.waiters.add(waiter)

    def refuse(*_: object, **__: object) -> None:
        raise StorageFailure("write failed", partition.log.path) from OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(type(partition.log), "append", refuse)
    with pytest.raises(StorageFailure):
        partition.append(batch())
    for index in (0, 1):
        with pytest.raises(PartitionOffline):
            hosted.manager.get("t", index)
    assert waiter.changed == {neighbour}
    assert (len(hosted.manager), hosted.manager.offline_count) == (0, 2)
    assert not any(log_dir.is_online for log_dir in hosted.logs.dirs)


async def test_appends_on_hold_wait_though_the_disk_keeps_up_and_the_other_way_round(hosted: Hosted) -> None:
    partition = hosted.create("t")
    partition.hold()
    partition.close_gate()
    waiting = asyncio.ensure_future(partition.room())
    await asyncio.sleep(0)
    partition.open_gate()
    await asyncio.sleep(0)
    assert partition.is_on_hold and not waiting.done() and not partition.is_immediate
    partition.close_gate()
    partition.release()
    await asyncio.sleep(0)
    assert not partition.is_on_hold and not waiting.done()
    partition.open_gate()
    await waiting
    await asyncio.sleep(0)
    assert partition.has_room and partition.is_immediate


async def test_a_partition_that_is_left_on_hold_lets_everybody_go(hosted: Hosted) -> None:
    partition = hosted.create("t")
    partition.hold()
    waiting = asyncio.ensure_future(partition.room())
    await asyncio.sleep(0)
    hosted.delete("t")
    await waiting
    partition.release()
    assert not partition.is_on_hold
