"""The budget of the page cache: whole pages, oldest first, over all logs."""

from mmap import PAGESIZE

import pytest

from config.views import LogConfig
from storage.log.page_budget import Drop, PageCacheBudget
from storage.log.partition_log import PartitionLog
from storage.segment.log_file import LogFile
from storage.types import TopicPartition
from tests.sim.logs import append, batch


@pytest.fixture
def files(fs) -> tuple[LogFile, LogFile]:
    return LogFile(fs, "/a"), LogFile(fs, "/b")


def pages(*drops: Drop) -> list[tuple[str, int, int]]:
    return [(drop.path, drop.position // PAGESIZE, drop.size // PAGESIZE) for drop in drops]


def test_the_oldest_page_goes_when_there_is_one_too_many(files):
    budget = PageCacheBudget()
    for page in range(5):
        budget.add(files[0], page * PAGESIZE, (page + 1) * PAGESIZE, 4 * PAGESIZE)
    assert pages(*budget.take_drops()) == [("/a", 0, 1)]
    assert (budget.size_bytes, budget.dropped_bytes) == (4 * PAGESIZE, PAGESIZE)
    assert budget.take_drops() == []


def test_pages_of_two_logs_go_in_the_order_of_their_syncs(files):
    first, second = files
    budget = PageCacheBudget()
    budget.add(first, 0, 2 * PAGESIZE, 4 * PAGESIZE)
    budget.add(second, 0, 2 * PAGESIZE, 4 * PAGESIZE)
    budget.add(first, 2 * PAGESIZE, 5 * PAGESIZE, 4 * PAGESIZE)
    assert pages(*budget.take_drops()) == [("/a", 0, 2), ("/b", 0, 1)]
    budget.add(second, 2 * PAGESIZE, 3 * PAGESIZE, 4 * PAGESIZE)
    assert pages(*budget.take_drops()) == [("/b", 1, 1)]


def test_a_page_is_counted_once_it_is_whole(files):
    budget = PageCacheBudget()
    following = budget.add(files[0], 0, PAGESIZE - 1, 10 * PAGESIZE)
    assert (following, budget.size_bytes) == (0, 0)
    following = budget.add(files[0], following, PAGESIZE + 5, 10 * PAGESIZE)
    assert (following, budget.size_bytes) == (PAGESIZE, PAGESIZE)
    budget.add(files[0], following, 2 * PAGESIZE, 10 * PAGESIZE)
    assert budget.size_bytes == 2 * PAGESIZE


def test_a_log_opened_in_the_middle_of_a_page_counts_that_page(files):
    budget = PageCacheBudget()
    budget.add(files[0], PAGESIZE + 7, 2 * PAGESIZE, 0)
    assert pages(*budget.take_drops()) == [("/a", 1, 1)]


def test_each_log_trims_to_its_own_value_and_none_stands_for_the_default(files):
    first, second = files
    budget = PageCacheBudget(3 * PAGESIZE)
    budget.add(first, 0, 4 * PAGESIZE, 10 * PAGESIZE)
    assert budget.take_drops() == []
    budget.add(second, 0, PAGESIZE, None)
    assert pages(*budget.take_drops()) == [("/a", 0, 2)]
    budget.add(second, PAGESIZE, 2 * PAGESIZE, 0)
    assert pages(*budget.take_drops()) == [("/a", 2, 2), ("/b", 0, 2)]
    assert budget.size_bytes == 0


def test_without_a_budget_nothing_is_counted_or_dropped(files):
    budget = PageCacheBudget()
    assert budget.add(files[0], 0, 100 * PAGESIZE, -1) == 100 * PAGESIZE
    budget.add(files[0], 0, 100 * PAGESIZE, None)
    assert (budget.size_bytes, budget.take_drops()) == (0, [])


def test_a_forgotten_file_makes_room(files):
    first, second = files
    budget = PageCacheBudget()
    budget.add(first, 0, 2 * PAGESIZE, 4 * PAGESIZE)
    budget.add(second, 0, PAGESIZE, 4 * PAGESIZE)
    budget.add(first, 2 * PAGESIZE, 3 * PAGESIZE, 4 * PAGESIZE)
    budget.forget(first)
    budget.forget(first)
    assert budget.size_bytes == PAGESIZE
    budget.add(second, PAGESIZE, 5 * PAGESIZE, 4 * PAGESIZE)
    assert pages(*budget.take_drops()) == [("/b", 0, 1)]


@pytest.fixture
def two_logs(fs, clock, rng, tmp_path):
    budget = PageCacheBudget(4 * PAGESIZE)
    config = LogConfig(segment_bytes=1 << 20)
    logs = [
        PartitionLog.open(fs, clock, rng, str(tmp_path / f"t-{n}"), TopicPartition("t", n), config, page_cache=budget)
        for n in range(2)
    ]
    return budget, *logs


def fill(log: PartitionLog, page_count: int) -> None:
    """Append one batch that is a little larger than so many pages."""
    append(log, value=b"v" * (page_count * PAGESIZE))


def test_every_sync_of_a_log_counts_what_it_covered_and_what_it_covered_only_once(two_logs):
    budget, log, other = two_logs
    fill(log, 2)
    log.flush()
    assert budget.size_bytes == 2 * PAGESIZE
    log.flush()
    fill(other, 1)
    other.flush()
    assert budget.size_bytes == 3 * PAGESIZE
    log.roll()
    fill(log, 2)
    log.flush()
    assert budget.size_bytes == 4 * PAGESIZE
    assert pages(*budget.take_drops()) == [(log.path + "/00000000000000000000.log", 0, 1)]


@pytest.mark.parametrize("leave", [PartitionLog.fail, PartitionLog.delete, PartitionLog.close])
def test_a_log_that_is_closed_takes_its_records_with_it(two_logs, leave):
    budget, log, other = two_logs
    fill(log, 2)
    log.flush()
    fill(other, 1)
    other.flush()
    leave(log)
    assert budget.size_bytes == PAGESIZE


def test_a_segment_that_leaves_takes_its_records_with_it_even_when_a_sync_ends_later(two_logs):
    budget, log, _ = two_logs
    fill(log, 2)
    plan = log.durability.flush_plan()
    log.truncate_fully_and_start_at(5)
    plan.run()
    log.durability.flushed(plan)
    assert budget.size_bytes == 0


def test_what_is_appended_during_a_sync_counts_with_the_next_one(two_logs):
    budget, log, _ = two_logs
    fill(log, 1)
    plan = log.durability.flush_plan()
    fill(log, 2)
    plan.run()
    log.durability.flushed(plan)
    assert budget.size_bytes == PAGESIZE
    log.flush()
    assert budget.size_bytes == 3 * PAGESIZE


def test_of_a_segment_that_was_cut_during_a_sync_only_what_is_left_counts(two_logs):
    budget, log, _ = two_logs
    fill(log, 1)
    fill(log, 4)
    plan = log.durability.flush_plan()
    log.truncate_to(1)
    plan.run()
    log.durability.flushed(plan)
    assert budget.size_bytes == PAGESIZE


def test_pages_are_really_dropped_and_the_bytes_stay(fs, tmp_path):
    path = tmp_path / "file"
    content = bytes(batch(100))
    path.write_bytes(content)
    fs.drop_cached(str(path), 0, len(content))
    fs.drop_cached(str(tmp_path / "missing"), 0, 1)
    assert path.read_bytes() == content
