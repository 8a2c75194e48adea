"""Topics, partitions and directories as they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.status.model import DirRow, Schedule, TopicRow
from broker.status.read.inventory import read_inventory, read_topic
from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.env.fs import Space
from storage.errors import StorageFailure
from tests.harness.hosted import NOW_MS, OTHER_ID
from tests.harness.status import StatusBed, a_move

SCHEDULED = LogConfig(delivery_mode="scheduled")
E_MS = SCHEDULED.delivery_clock_uncertainty_ms


def batch(count: int) -> bytes:
    return bytes(build_batch([(None, b"x" * 10)] * count, timestamp=NOW_MS))


@pytest.fixture
def bed(tmp_path: Path) -> StatusBed:
    return StatusBed(tmp_path / "a", tmp_path / "b")


def pass_seconds(bed: StatusBed, seconds: float) -> None:
    bed.hosted.clock.wall_ms += int(seconds * 1000)


async def test_a_topic_is_its_partitions_added_up(bed: StatusBed) -> None:
    first = bed.hosted.create("t", partitions=2)
    second = bed.hosted.manager.get("t", 1)
    first.append(batch(3))
    second.append(batch(2))
    first.log.increment_log_start_offset(1)
    size = first.log.size_bytes + second.log.size_bytes
    inventory = await read_inventory(bed.parts)
    assert inventory.topics == (TopicRow("t", 2, 0, 2, size, 4, None, None, None),)


async def test_what_scheduled_topics_hold_back_is_told_by_topic_partition_and_altogether(bed: StatusBed) -> None:
    bed.hosted.create("t").append(batch(3))
    assert (await read_inventory(bed.parts)).schedule is None
    bed.hosted.create("later", partitions=2, config=SCHEDULED)
    for number, delay_ms in ((0, 7_000), (0, 8_000), (1, 5_000)):
        due = build_batch([(None, b"x")] * 2, timestamp=NOW_MS + delay_ms)
        bed.hosted.manager.get("later", number).append(bytes(due))
    inventory = await read_inventory(bed.parts)
    assert {row.name: row.pending_count for row in inventory.topics} == {"t": None, "later": 6}
    assert inventory.schedule == Schedule(2, 2, 6, NOW_MS + 5_000 + E_MS, 0, None)
    rows = await read_topic(bed.parts, "later")
    assert [row[-2:] for row in rows or ()] == [(4, NOW_MS + 7_000 + E_MS), (2, NOW_MS + 5_000 + E_MS)]
    bed.hosted.timers.pass_ms(5_000 + E_MS)
    inventory = await read_inventory(bed.parts)
    assert inventory.schedule == Schedule(2, 1, 4, NOW_MS + 7_000 + E_MS, 1, 0.0)
    bed.hosted.lead("later", OTHER_ID, 1)
    assert (await read_inventory(bed.parts)).schedule is None


async def test_rates_are_there_from_the_first_sample_on(bed: StatusBed) -> None:
    partition = bed.hosted.create("t")
    partition.append(batch(10))
    pass_seconds(bed, 5)
    await bed.parts.samples.take()
    [row] = (await read_inventory(bed.parts)).topics
    assert (row.records_in, row.bytes_in, row.bytes_out) == (2, len(batch(10)) / 5, 0)


async def test_partitions_that_are_not_here_count_as_offline(bed: StatusBed) -> None:
    bed.hosted.create("t", partitions=3, replicas=(OTHER_ID,), leader=OTHER_ID)
    [row] = (await read_inventory(bed.parts)).topics
    assert (row.partition_count, row.offline_count) == (3, 3)


async def test_directories_have_their_logs_room_and_copies(bed: StatusBed, tmp_path: Path) -> None:
    one, other = bed.hosted.logs.dirs
    for name in ("t", "u", "v"):
        bed.hosted.create(name).append(batch(5))
    bed.spaces[one] = Space(1000, 250)
    bed.moves.append(a_move(bed.hosted, source=one, destination=other, done_bytes=77))
    bed.hosted.logs.cordoned = frozenset({other.path})
    rows = {row.path: row for row in (await read_inventory(bed.parts)).log_dirs}
    size = len(batch(5))
    assert rows[one.path] == DirRow(one.path, True, False, "", 2, 2 * size, 1000, 250)
    assert rows[other.path] == DirRow(other.path, True, True, "", 2, size + 77, None, None)


async def test_a_failed_directory_says_why(bed: StatusBed) -> None:
    one, other = bed.hosted.logs.dirs
    bed.hosted.create("t")
    bed.hosted.manager.fail_dir(other, StorageFailure("cannot sync: no such device", other.path))
    rows = {row.path: row for row in (await read_inventory(bed.parts)).log_dirs}
    assert (rows[other.path].is_online, rows[other.path].reason) == (False, "cannot sync: no such device")
    assert rows[one.path].is_online


async def test_while_the_broker_starts_only_directories_are_known(bed: StatusBed) -> None:
    bed.hosted.create("t")
    bed.coordinators = None
    inventory = await read_inventory(bed.parts)
    assert (inventory.topics, inventory.groups, inventory.groups_reason) == ((), (), "")
    assert [row.log_count for row in inventory.log_dirs] == [None, None]
    assert await read_topic(bed.parts, "t") is None


async def test_partitions_of_a_topic_have_their_offsets_and_place(bed: StatusBed) -> None:
    partition = bed.hosted.create("t", partitions=2)
    partition.append(batch(7))
    partition.log.increment_log_start_offset(2)
    rows = await read_topic(bed.parts, "t")
    assert rows is not None
    log = partition.log
    where = str(Path(log.path).parent)
    assert rows[0] == (0, 1, where, 2, 7, 7, 1, log.size_bytes, None, None)
    assert rows[1].number == 1
    assert await read_topic(bed.parts, "nix") is None


async def test_a_partition_without_a_log_here_is_a_row_too(bed: StatusBed) -> None:
    bed.hosted.create("t", replicas=(OTHER_ID,), leader=OTHER_ID)
    rows = await read_topic(bed.parts, "t")
    assert rows == ((0, OTHER_ID, "", *[None] * 7),)
