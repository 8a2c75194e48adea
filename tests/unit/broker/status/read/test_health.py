"""What is wrong, in words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.status.model import Health, Level, Trouble
from broker.status.read.health import MAX_NAMED, read_frame
from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.env.fs import Space
from storage.errors import StorageFailure
from tests.harness.hosted import NOW_MS
from tests.harness.status import StatusBed, a_move

SCHEDULED = LogConfig(delivery_mode="scheduled")
E_MS = SCHEDULED.delivery_clock_uncertainty_ms


@pytest.fixture
def bed(tmp_path: Path) -> StatusBed:
    return StatusBed(tmp_path / "a", tmp_path / "b")


def troubles(bed: StatusBed) -> list[tuple[Level, str]]:
    return [(trouble.level, trouble.text) for trouble in read_frame(bed.parts).health.troubles]


def test_a_healthy_broker_says_who_it_is_and_nothing_else(bed: StatusBed) -> None:
    identity, health = read_frame(bed.parts)
    assert (identity.node_id, identity.uptime_seconds, identity.listeners) == (1, 90, ("PLAINTEXT://127.0.0.1:9092",))
    assert len(identity.cluster_id) == 22
    assert (health.is_ready, health.level, health.troubles) == (True, Level.OK, ())


def test_a_broker_that_starts_is_not_ready(bed: StatusBed) -> None:
    bed.phase.current = "log recovery"
    bed.coordinators = None
    health = read_frame(bed.parts).health
    assert (health.is_ready, health.phase) == (False, "log recovery")


def test_a_failed_directory_and_its_partitions_come_first(bed: StatusBed) -> None:
    one, other = bed.hosted.logs.dirs
    for name in ("t", "u"):
        bed.hosted.create(name)
    bed.spaces[one] = Space(1000, 30)
    bed.hosted.manager.fail_dir(other, StorageFailure("no such device", other.path))
    assert troubles(bed) == [
        (Level.BAD, f"Log directory {other.path} is offline: no such device"),
        (Level.BAD, "1 partition cannot be served: its log is not here."),
        (Level.WARN, f"Log directory {one.path} has 3% of its room left."),
    ]
    assert read_frame(bed.parts).health.level is Level.BAD


def test_coordinators_that_load_or_could_not_are_named_by_their_topic(bed: StatusBed) -> None:
    bed.groups.partitions = Counter(active=47, failed=3)
    bed.transaction_partitions = Counter(loading=1)
    assert troubles(bed) == [
        (Level.BAD, "3 partitions of __consumer_offsets could not be loaded: groups there are refused."),
        (Level.WARN, "1 partition of __transaction_state still loading: transactional ids there have to wait."),
    ]


def test_moves_that_are_held_up_are_named_and_many_are_counted(bed: StatusBed) -> None:
    bed.moves += [a_move(bed.hosted), *[a_move(bed.hosted, failure="no space left")] * (MAX_NAMED + 2)]
    found = troubles(bed)
    where = bed.hosted.logs.dirs[1].path
    assert found[0] == (Level.WARN, f"The move of t-0 to {where} is held up: no space left")
    assert found[-1] == (Level.WARN, "2 more moves are held up.")
    assert len(found) == MAX_NAMED + 1


def test_a_cleaner_in_trouble_is_told(bed: StatusBed) -> None:
    log = bed.hosted.create("t").log
    bed.cleaner.is_failing = True
    bed.cleaner.troubles.mark_uncleanable(log, "a batch without keys")
    assert troubles(bed) == [
        (Level.BAD, "The cleaner fails whenever it looks for logs to compact; the log says why."),
        (Level.WARN, "t-0 cannot be compacted: a batch without keys"),
    ]


async def test_a_late_disk_a_late_loop_and_failed_requests_are_told(
    bed: StatusBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    writeback: Any = SimpleNamespace(late_count=2)
    monkeypatch.setattr(bed.parts.watched.disk_work, "writeback", writeback)
    bed.stats.of("fetch").failed = 1
    bed.stats.of("fetch").count_errors([27])
    bed.parts.loop_watch.lateness.observe(0.4)
    await bed.parts.samples.take()
    assert troubles(bed) == [
        (Level.WARN, "The disk is late: producers of 2 partitions wait for it."),
        (Level.WARN, "Requests have failed in the last minute; the log says why."),
        (Level.WARN, "Clients had to wait for more than 0.25 seconds 1 time in the last minute."),
    ]
    for _ in range(12):
        await bed.parts.samples.take()
    writeback.late_count = 0
    assert troubles(bed) == []


async def test_errors_that_are_told_to_clients_are_theirs(bed: StatusBed) -> None:
    bed.stats.of("fetch").count_errors([27, 3])
    await bed.parts.samples.take()
    assert troubles(bed) == []


def test_the_worst_of_all_troubles_is_the_level() -> None:
    warn, bad = Trouble(Level.WARN, ""), Trouble(Level.BAD, "")
    assert [Health("running", some).level for some in ((), (warn,), (warn, bad))] == [Level.OK, Level.WARN, Level.BAD]


async def test_a_log_whose_scheduled_records_cannot_be_read_is_told_until_it_can(bed: StatusBed) -> None:
    partition = bed.hosted.create("later", config=SCHEDULED)
    for delay_ms in (1_000, 1_000, 60_000):
        partition.append(build_batch([(None, b"x")], timestamp=NOW_MS + delay_ms))
    path = Path(partition.log.path) / "00000000000000000000.log"
    whole = path.read_bytes()
    size = len(whole) // 3
    with path.open("r+b") as file:  # the second batch
        file.seek(size)
        file.write(bytes(size))
    bed.hosted.timers.pass_ms(1_000 + E_MS)
    await partition.catch_up()
    told = "later-0 shows no more of what is scheduled: its log cannot be read."
    assert troubles(bed) == [(Level.BAD, told)]
    with path.open("r+b") as file:
        file.write(whole)
    bed.hosted.timers.pass_ms(1_000)
    await partition.catch_up()
    assert troubles(bed) == []
    assert partition.log.released_end_offset == 2
