"""Whatever an operation of a log directory fails with, that directory goes offline, once, and no other does."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.api.fetch import FetchApi
from broker.api.fetch_sessions import FetchSessions
from broker.api.leaders import Leaders
from broker.api.offsets import OffsetsApi
from broker.background.checkpoints import Checkpoints
from broker.background.retention import Retention
from broker.metadata.image import Delta, TopicImage, partitions_of
from broker.partition.errors import PartitionOffline
from broker.partition.internal_log import InternalLog
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from config.views import LogConfig, LogManagerConfig
from protocol.api_keys import ApiKey
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from storage.producers.verification import NOT_ASKED
from tests.harness.cleaning import COMPACT, CleanerBed
from tests.harness.hosted import NOW_MS, Hosted, context, topic_id_of
from tests.harness.machine import skip_in_memory
from tests.harness.wakes import Wakes
from tests.sim.faulty_fs import FaultyFS
from tests.sim.logs import append_marker

KAFKA_STORAGE_ERROR = 56
BATCH_BYTES = len(build_batch([(b"k", b"v")], timestamp=NOW_MS))
TWO_BATCHES = LogConfig(segment_bytes=2 * BATCH_BYTES, index_interval_bytes=0, file_delete_delay_ms=0)


class Bed:
    """A topic with a partition in each of two directories; the disk of the second one can be made to fail."""

    def __init__(self, tmp_path: Path) -> None:
        self.fs = FaultyFS()
        self.good_dir, self.bad_dir = tmp_path / "good", tmp_path / "bad"
        self.pools = Pools()
        self.hosted = Hosted(self.good_dir, self.bad_dir, pools=self.pools, page_cache_bytes=0, fs=self.fs)
        assert self.hosted.disk is not None
        self.disk = self.hosted.disk
        clock, config = self.hosted.clock, LogManagerConfig()
        self.checkpoints = Checkpoints(
            self.hosted.logs, self.hosted.manager, self.disk.flushes, self.pools, clock, config
        )
        self.retention = Retention(self.hosted.manager, self.pools, clock, config, self.checkpoints)
        self.config = TWO_BATCHES
        self.good: Partition
        self.bad: Partition

    def create(self, config: LogConfig) -> None:
        self.config = config
        self.hosted.create("t", partitions=2, config=config)
        first, second = self.hosted.manager.get("t", 0), self.hosted.manager.get("t", 1)
        is_first_good = first.log.path.startswith(str(self.good_dir))
        self.good, self.bad = (first, second) if is_first_good else (second, first)

    def produce(self, partition: Partition, count: int = 1, **fields: int) -> None:
        with partition.log.transactions.in_hand(NOT_ASKED):
            for _ in range(count):
                partition.append(build_batch([(b"k", b"v")], timestamp=NOW_MS, **fields))

    async def fetch(self, offset: int, isolation_level: int = 0) -> int:
        """Fetch from the bad partition and give the error code."""
        sessions = FetchSessions(10, lambda: 1, lambda: 0.0)
        api = FetchApi(self.hosted.manager, self.hosted.image, sessions, Leaders(self.hosted.image), 1 << 20)
        wanted = FetchPartition(partition=self.bad.tp.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic="t", partitions=[wanted])],
        )
        response = await api.fetch(request, context(ApiKey.FETCH, 11))
        [[answer]] = [topic.partitions for topic in response.responses]
        if answer.records:
            answer.records.release()
        return answer.error_code

    async def find_time(self) -> int:
        api = OffsetsApi(self.hosted.manager, self.pools)
        wanted = ListOffsetsPartition(partition_index=self.bad.tp.partition, timestamp=NOW_MS)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
        response = await api.list_offsets(request, context(ApiKey.LIST_OFFSETS, 5))
        return response.topics[0].partitions[0].error_code

    @contextmanager
    def spared(self) -> Iterator[None]:
        """Let everything go well for a while."""
        faults, self.fs.faults = self.fs.faults, []
        yield
        self.fs.faults = faults

    def open_paths(self) -> list[str]:
        """Name the open files of the directory that fails."""
        found = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                path = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                continue
            if path.startswith(str(self.bad_dir)):
                found.append(path)
        return found


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    bed = Bed(tmp_path)
    yield bed
    bed.fs.faults.clear()
    await bed.disk.close()
    bed.hosted.logs.close(clean=False)
    bed.pools.close()


Act = Callable[[Bed], Awaitable[object]]


class Case(NamedTuple):
    """What is done while an operation fails on files of the bad directory."""

    operation: str
    suffix: str
    act: Act
    config: LogConfig = TWO_BATCHES
    batches: int = 0
    """So many are there before the fault."""
    code: int = errno.EIO


async def append(bed: Bed) -> None:
    with pytest.raises(StorageFailure):
        bed.produce(bed.bad)


async def append_of_a_producer(bed: Bed) -> None:
    for sequence in range(2):
        bed.produce(bed.bad, producer_id=7, producer_epoch=0, base_sequence=sequence)
    with pytest.raises(StorageFailure):
        bed.produce(bed.bad, producer_id=8, producer_epoch=0, base_sequence=0)


async def flush_a_new_epoch(bed: Bed) -> None:
    with bed.spared():
        await flush(bed)
    bed.hosted.lead("t", 1, 5)
    await flush(bed)


async def abort_a_transaction(bed: Bed) -> None:
    bed.produce(bed.bad, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    with pytest.raises(StorageFailure) as raised:
        append_marker(bed.bad.log, 7, is_abort=True)
    bed.bad.fail(raised.value)


async def append_directly(bed: Bed) -> None:
    skip_in_memory(bed.bad_dir)
    bed.produce(bed.bad)
    with pytest.raises(PartitionOffline):
        await bed.bad.durable(1)


async def append_to_the_next_segment_directly(bed: Bed) -> None:
    with bed.spared():
        bed.produce(bed.bad, 2)
        await bed.bad.durable(2)
    await append(bed)


async def flush(bed: Bed) -> None:
    bed.produce(bed.bad, 2)
    await bed.checkpoints.flush()


async def write_back(bed: Bed) -> None:
    bed.produce(bed.bad)
    await bed.disk.writeback.close()


async def fetch(bed: Bed) -> None:
    assert await bed.fetch(1) == KAFKA_STORAGE_ERROR


async def fetch_aborted(bed: Bed) -> None:
    with bed.spared():
        bed.produce(bed.bad, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        append_marker(bed.bad.log, 7, is_abort=True)
        bed.bad.log.advance_high_watermark(bed.bad.log.log_end_offset)
    assert await bed.fetch(0, isolation_level=1) == KAFKA_STORAGE_ERROR


async def search_by_time(bed: Bed) -> None:
    assert await bed.find_time() == KAFKA_STORAGE_ERROR


async def replay(bed: Bed) -> None:
    with pytest.raises(StorageFailure):
        [one async for one in InternalLog("t", bed.hosted.manager, bed.pools.io).scan(bed.bad.tp.partition)]


async def retain(bed: Bed) -> None:
    bed.bad.log.increment_log_start_offset(bed.bad.log.log_end_offset - 1)
    await bed.retention.run_once()


async def delete(bed: Bed) -> None:
    bed.hosted.delete("t")
    await bed.checkpoints.purge()
    bed.hosted.create("t", partitions=2, incarnation=2)


async def delete_and_wait(bed: Bed) -> None:
    bed.hosted.inherited = bed.config
    await delete(bed)


async def checkpoint(bed: Bed) -> None:
    await bed.checkpoints.flush()
    await bed.checkpoints.high_watermarks()
    bed.bad.log.increment_log_start_offset(1)
    await bed.checkpoints.save_log_starts()


async def create_another(bed: Bed) -> None:
    bed.hosted.create("u", partitions=2, config=LogConfig())
    for number in range(2):
        assert bed.hosted.manager.get("u", number).log.path.startswith(str(bed.good_dir))
    assert not list(bed.bad_dir.glob("u-*")), "undone"


async def clean(bed: Bed) -> None:
    cleaning = CleanerBed(bed.hosted)
    with bed.spared():
        for _ in range(3):
            cleaning.fill(bed.bad)
    await cleaning.look()
    await cleaning.finish()
    await cleaning.cleaner.close()


CASES = {
    "append": Case("write", ".log", append),
    "append on a full disk": Case("write", ".log", append, code=errno.ENOSPC),
    "append on a read-only disk": Case("write", ".log", append, code=errno.EROFS),
    "roll": Case("create", ".log", append, batches=2),
    "roll: offset index": Case("create", ".index", append, batches=2),
    "roll: producer snapshot": Case("write_file", ".snapshot", append_of_a_producer),
    "roll: what the offset index still lacks": Case("write", ".index", append, batches=2),
    "roll: what the time index still lacks": Case("write", ".timeindex", append, batches=2),
    "transaction index": Case("write", ".txnindex", abort_a_transaction),
    "epoch file": Case("write_file", "leader-epoch-checkpoint.save.tmp", flush_a_new_epoch),
    "epoch file: rename": Case("rename", "leader-epoch-checkpoint.save.tmp", flush_a_new_epoch),
    "flush": Case("sync", ".log", flush),
    "flush: index": Case("sync", ".index", flush),
    "flush: what the index still lacks": Case("write", ".index", flush),
    "flush: names": Case("sync_dir", "", flush),
    "write-back": Case("sync", ".log", write_back, replace(TWO_BATCHES, writeback_window_bytes=1)),
    "direct write": Case("write", ".log", append_directly, LogConfig(preallocate=True, segment_bytes=1 << 20)),
    "direct write: open": Case(
        "open_direct", ".log", append_to_the_next_segment_directly, replace(TWO_BATCHES, preallocate=True)
    ),
    "cleaning: read": Case("read", ".log", clean, COMPACT),
    "cleaning: write": Case("write", ".log.cleaned", clean, COMPACT),
    "cleaning: a new name": Case("rename", ".log.cleaned", clean, COMPACT),
    "cleaner checkpoint": Case("write_file", "cleaner-offset-checkpoint.tmp", clean, COMPACT),
    "fetch": Case("read", ".log", fetch, LogConfig(), batches=3),
    "fetch: aborted transactions": Case("read", ".txnindex", fetch_aborted, LogConfig()),
    "search by time": Case("read", ".log", search_by_time, batches=3),
    "replay of an internal topic": Case("read", ".log", replay, LogConfig(), batches=3),
    "retention: rename": Case("rename", ".log", retain, batches=5),
    "retention: unlink": Case("unlink", ".deleted", retain, batches=5),
    "deletion: rename": Case("rename", "", delete),
    "deletion: sync": Case("sync_dir", "", delete),
    "deletion: unlink": Case("unlink", ".log", delete_and_wait),
    "deletion: list": Case("list_dir", "", delete_and_wait),
    "recovery points": Case("write_file", "recovery-point-offset-checkpoint.tmp", checkpoint, batches=1),
    "high watermarks": Case("write_file", "replication-offset-checkpoint.tmp", checkpoint, batches=1),
    "high watermarks: rename": Case("rename", "replication-offset-checkpoint.tmp", checkpoint, batches=1),
    "high watermarks: sync": Case("sync_dir", "/bad", checkpoint, batches=1),
    "log starts": Case("write_file", "log-start-offset-checkpoint.tmp", checkpoint, batches=1),
    "creation of a log": Case("make_dirs", "u-1", create_another),
    "creation of a log: full": Case("create", "", create_another, code=errno.ENOSPC),
    "creation of a log: its id": Case("write_file", "partition.metadata.tmp", create_another),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_failed_operation_takes_its_directory_offline_and_spares_the_other(
    bed: Bed, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    case = CASES[name]
    bed.create(case.config)
    bed.produce(bed.bad, case.batches)
    bed.produce(bed.good)
    waiter = Wakes()
    bed.bad.waiters.add(waiter)
    fault = bed.fs.break_(case.operation, bed.bad_dir, case.suffix, code=case.code)
    await case.act(bed)
    await bed.disk.flushes._tasks.join()
    assert fault.met, "the operation was not reached"
    assert bed.hosted.lost_dirs == [str(bed.bad_dir)]
    assert waiter.changed == {bed.bad}, "who waits is woken"
    [line] = [record.getMessage() for record in caplog.records if "log directory offline" in record.getMessage()]
    assert f"dir={bed.bad_dir} partitions=" in line
    assert os.strerror(case.code) in line
    assert "cannot " in line, "the operation"
    if bed.hosted.manager.find(bed.good.tp) is bed.good:
        bed.produce(bed.good, 3)
        await bed.checkpoints.flush()
    assert bed.hosted.lost_dirs == [str(bed.bad_dir)]
    assert bed.open_paths() == []
    changes = len(bed.fs.changes)
    bed.hosted.logs.close()
    assert (bed.good_dir / ".kafka_cleanshutdown").exists()
    assert not (bed.bad_dir / ".kafka_cleanshutdown").exists()
    assert [path for _, path in bed.fs.changes[changes:] if path.startswith(str(bed.bad_dir))] == []


async def test_an_append_that_finds_the_disk_full_is_undone_and_what_was_acknowledged_is_there_after_a_restart(
    bed: Bed, tmp_path: Path
) -> None:
    bed.create(LogConfig())
    bed.produce(bed.bad, 3)
    tp, log = bed.bad.tp, bed.bad.log
    bed.fs.break_("write", bed.bad_dir, ".log", code=errno.ENOSPC)
    await append(bed)
    assert (log.log_end_offset, log.high_watermark) == (3, 3)
    bed.hosted.logs.close()
    after = Hosted(bed.good_dir, bed.bad_dir)
    assert after.logs.logs[tp].log_end_offset == 3
    after.logs.close(clean=False)


async def test_a_directory_that_fails_while_many_logs_are_made_in_a_thread_is_left_to_the_loop(bed: Bed) -> None:
    bed.create(LogConfig())
    bed.fs.break_("make_dirs", bed.bad_dir, code=errno.ENOSPC)
    topic = bed.hosted.current.topics_by_name["t"]
    many = TopicImage("many", topic_id_of("many"), (topic.partitions[0],) * 8)
    delta = Delta(created_topics=(many,), created_partitions=tuple(partitions_of(many)))
    create = bed.hosted.manager.missing_logs(delta, bed.hosted.current)
    assert create is not None
    failures = create()
    assert failures
    assert bed.hosted.logs.dirs[1].is_online, "its logs belong to the loop"
    for failure in failures:
        bed.hosted.manager.fail_dir_of(failure)
    assert bed.hosted.lost_dirs == [str(bed.bad_dir)]
    bed.hosted.manager.publish(delta, bed.hosted.current)
    assert all(bed.hosted.manager.get("many", number).log.path.startswith(str(bed.good_dir)) for number in range(8))
