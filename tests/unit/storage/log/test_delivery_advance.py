"""How the delivery watermark finds its way: what an advance reads, where it stops, and the search that goes on."""

from itertools import pairwise

import pytest

from config.views import LONG_MAX
from storage.errors import LogClosed, StorageFailure
from storage.log import pending_search
from storage.log.delivery import FEW_STEPS, MAX_STEPS, MEASURED_STEPS, StepBudget
from storage.log.partition_log import PartitionLog
from storage.segment.later import READ_STEPS
from storage.segment.segment import Segment
from storage.types import AppendOrigin
from tests.harness.batches import old_message
from tests.sim.faulty_fs import FaultyFS
from tests.sim.logs import NOW, append, batch, fill, known, searched

E = 250
SIZE = len(batch())


@pytest.fixture
def fs() -> FaultyFS:
    return FaultyFS()


def reads(fs: FaultyFS, suffix: str = ".log") -> list[str]:
    """Name the files of a kind that were read since this was asked last."""
    found = [path.rsplit("/", 1)[1] for path in fs.reads if path.endswith(suffix)]
    fs.reads.clear()
    return found


def advanced(log: PartitionLog, now_ms: int) -> int:
    """Advance until the next pending batch or the end is known; return how many advances that took."""
    for count in range(1, 10_000):
        log.delivery.advance(now_ms)
        if not log.delivery.is_behind:
            return count
    raise AssertionError(log)


# --- what an advance reads ---


def test_appends_and_what_is_known_to_be_pending_cost_no_read(scheduled, fs):
    log = scheduled()
    fill(log, [NOW - E, NOW + 1000, NOW - E])
    reads(fs)
    for now in (NOW, NOW + 1249):
        log.delivery.advance(now)
        fill(log, [NOW + 500])
    assert not fs.reads


def test_the_next_batch_behind_one_that_came_due_costs_one_read_of_its_segment(scheduled, fs):
    log = scheduled(segment_bytes=10 * SIZE)
    fill(log, [NOW + 1000 + number for number in range(100)])
    reads(fs)
    for number in range(5):
        log.delivery.advance(NOW + 1250 + number)
        assert known(log) == (number + 1, NOW + 1001 + number)
    assert [path.rsplit("/", 1)[1] for path in fs.reads] == [f"{0:020}.log"] * 5


def test_a_consumer_at_the_watermark_needs_no_index_to_find_its_end(scheduled, fs):
    log = scheduled()
    fill(log, [NOW + 1000 + number for number in range(100)])
    reads(fs)
    for number in range(50):
        log.delivery.advance(NOW + 1250 + number)
        found = log.read(number, max_bytes=1 << 20, bound=log.delivery.watermark, min_one_batch=True)
        found.region.release()
        assert found.size == SIZE
        assert len(fs.reads) <= 2 and set(reads(fs)) == {f"{0:020}.log"}


def test_of_segments_that_are_due_nothing_is_read(scheduled, fs):
    log = scheduled(segment_bytes=SIZE)
    fill(log, [NOW + 1000] * 100 + [NOW + 5000])
    log.delivery.advance(NOW + 1249)
    log.delivery.cut(0)
    reads(fs)
    log.delivery.advance(NOW + 1250)
    assert known(log) == (100, NOW + 5000)
    assert set(reads(fs)) == {f"{100:020}.log"}


def test_after_a_restart_the_time_indexes_tell_of_segments_that_are_due(scheduled, reopened, fs):
    log = reopened(scheduled(segment_bytes=SIZE), segment_bytes=SIZE)
    fill(log, [NOW + 1000] * 20 + [NOW + 5000])
    log = reopened(log, segment_bytes=SIZE)
    reads(fs)
    assert 1 < advanced(log, NOW + 1250) < 10
    assert known(log) == (20, NOW + 5000)
    assert len(reads(fs)) <= 3 * 21  # to compare an index with some batches, once
    log.delivery.begin_at(0)
    advanced(log, NOW + 1250)
    assert known(log) == (20, NOW + 5000)
    assert set(reads(fs)) == {f"{20:020}.log"}


def test_the_time_index_leads_over_what_is_due_within_a_segment(scheduled, fs):
    log = scheduled(index_interval_bytes=4 * SIZE)
    fill(log, [NOW + 1000 + number for number in range(5000)])
    for number in range(4321, 4331):
        log.delivery.begin_at(0)
        reads(fs)
        assert log.delivery.advance(NOW + E + 1000 + number)
        assert known(log) == (number + 1, NOW + 1000 + number + 1)
        assert len(fs.reads) < 20


def test_a_search_is_led_by_the_time_index_too(scheduled, fs):
    log = scheduled(index_interval_bytes=4 * SIZE)
    fill(log, [NOW + 1000 + number for number in range(5000)])
    for number in range(4321, 4331):
        log.delivery.begin_at(0)
        log.delivery._at = (log._state.segments.active, 0)
        search = log.delivery.plan_search(NOW + E + 1000 + number)
        reads(fs)
        assert search.run()[:2] == (number + 1, NOW + 1000 + number + 1)
        assert len(fs.reads) < 20


def test_an_index_entry_within_a_batch_leads_to_the_whole_batch(scheduled):
    log = scheduled(index_interval_bytes=0)
    for number in range(300):
        append(log, 3, timestamp=NOW + 1000 * number)
    segment = log._state.segments.active
    entries = [segment.time_index.entry(slot) for slot in range(segment.time_index.file.count)]
    assert len(entries) > 200
    index = segment.time_index
    index.replace(b"".join(time.to_bytes(8, "big") + (offset - 1).to_bytes(4, "big") for time, offset in entries))
    log.delivery.begin_at(0)
    log.delivery.advance(NOW + 1000 * 200 + E + 2)
    assert known(log) == (603, NOW + 201_002)


def test_what_was_waited_for_is_measured_one_by_one_up_to_a_bound(scheduled, fs):
    log = scheduled(segment_bytes=100 * SIZE)
    told: list[int] = []
    log._state.stats.on_activated = told.append
    fill(log, [NOW + 1000] * 1000)
    reads(fs)
    assert log.delivery.advance(NOW + 1260)
    assert known(log) == (1000, None)
    assert told == [10] * len(told) and 50 < len(told) <= MEASURED_STEPS
    assert len(reads(fs)) < 10


def test_an_immediate_topic_costs_no_read_and_shows_what_lies_far_ahead(open_log, fs):
    log = open_log(message_timestamp_after_max_ms=LONG_MAX, delivery_max_delay_ms=0, segment_ms=LONG_MAX)
    reads(fs)
    fill(log, [NOW, LONG_MAX, NOW + 86_400_000, NOW])
    found = log.read(0, max_bytes=1 << 20, bound=log.high_watermark, min_one_batch=True)
    found.region.release()
    assert found.size == 4 * SIZE
    assert not fs.reads


# --- where it stops ---


def zigzag(count: int) -> list[int]:
    """Give times of which the first is the largest: no index tells anything of the others."""
    return [NOW + 1000, *[NOW + 500] * (count - 2), NOW + 9000]


def test_an_advance_is_bounded_and_the_next_one_goes_on(scheduled, reopened, fs):
    log = scheduled(index_interval_bytes=SIZE)
    fill(log, zigzag(3000))
    log = reopened(log)
    reads(fs)
    seen = [0]
    while log.delivery.is_behind:
        assert log.delivery.advance(NOW + 1250)
        seen.append(log.delivery.watermark)
        assert seen[-1] - seen[-2] <= MAX_STEPS
        assert len(reads(fs)) <= MAX_STEPS // READ_STEPS
    assert known(log) == (2999, NOW + 9000)
    assert len(seen) > 5


def test_those_that_share_a_budget_take_together_little_more_than_one_and_all_go_on(scheduled, reopened, fs):
    log = scheduled(index_interval_bytes=SIZE)
    fill(log, zigzag(3000))
    log = reopened(log)
    reads(fs)
    budget, seen = StepBudget(), [0]
    for _ in range(20):
        assert log.delivery.advance(NOW + 1250, budget)
        seen.append(log.delivery.watermark)
    assert MAX_STEPS // 2 < seen[1] <= MAX_STEPS
    assert all(0 < now - before <= FEW_STEPS for before, now in pairwise(seen[1:]))
    assert len(reads(fs)) <= MAX_STEPS // READ_STEPS + 19


def test_one_search_does_what_takes_many_advances(scheduled, reopened):
    log = scheduled(index_interval_bytes=SIZE)
    fill(log, zigzag(3000))
    log = reopened(log)
    assert log.delivery.plan_search(NOW).run() == (0, NOW + 1000, (log._state.segments.active, 0), None)
    assert searched(log, NOW + 1250) == 1
    assert known(log) == (2999, NOW + 9000)
    assert log.delivery.plan_search(NOW + 1250) is None
    assert log.delivery.advance(NOW + 9250)


@pytest.mark.parametrize("suffix", ["timeindex", "index"])
def test_a_search_needs_no_index(scheduled, reopened, suffix, tmp_path):
    log = scheduled(segment_bytes=100 * SIZE, index_interval_bytes=SIZE)
    fill(log, [*zigzag(1500), *zigzag(500)])
    log = reopened(log, segment_bytes=100 * SIZE)
    search = log.delivery.plan_search(NOW + 1250)
    for path in (tmp_path / "t-0").glob(f"*.{suffix}"):
        path.write_bytes(bytes(len(path.read_bytes())))
    found = search.run()
    assert found[:2] == (1499, NOW + 9000)
    assert log.delivery.take(search, found)
    assert known(log) == (1499, NOW + 9000)


@pytest.mark.parametrize("is_searched", [False, True])
def test_a_time_index_that_lost_its_content_releases_nothing(scheduled, reopened, tmp_path, is_searched):
    """An entry of zeros says that all is from 1970."""
    log = scheduled(segment_bytes=3 * SIZE)
    fill(log, [NOW, NOW + 5000, NOW + 5000, NOW])
    log = reopened(log, segment_bytes=3 * SIZE)
    [path, _] = sorted((tmp_path / "t-0").glob("*.timeindex"))
    path.write_bytes(bytes(12))
    if is_searched:
        search = log.delivery.plan_search(NOW + E)
        assert search.run()[:2] == (1, NOW + 5000)
    else:
        log.delivery.advance(NOW + E)
        assert known(log) == (1, NOW + 5000)


def test_a_time_index_from_1970_is_believed(scheduled, reopened, caplog):
    log = scheduled(segment_bytes=3 * SIZE)
    fill(log, [0] * 7)
    log = reopened(log, segment_bytes=3 * SIZE)
    caplog.clear()
    log.delivery.advance(NOW)
    assert known(log) == (7, None)
    assert not caplog.messages


def test_a_search_looks_at_so_many_segments_and_the_next_one_goes_on(scheduled, reopened, fs, monkeypatch):
    monkeypatch.setattr(pending_search, "MAX_SEGMENTS", 20)
    log = scheduled(segment_bytes=SIZE)
    count = 50
    fill(log, [NOW + 1000] * count + [NOW + 5000])
    log = reopened(log, segment_bytes=SIZE)
    reads(fs)
    assert searched(log, NOW + 1250) == 2
    assert known(log) == (count, NOW + 5000)
    assert len(reads(fs)) <= 3 * (count + 1)  # to compare an index with some batches


def test_a_search_that_finds_nothing_pending_leads_to_the_end(scheduled, reopened):
    log = scheduled(segment_bytes=100 * SIZE)
    fill(log, zigzag(1000))
    log = reopened(log, segment_bytes=100 * SIZE)
    search = log.delivery.plan_search(NOW + 10_000)
    fill(log, [NOW - E, NOW + 20_000])
    assert search.run().offset == 1000
    log.delivery.take(search, search.run())
    log.delivery.advance(NOW + 10_000)
    assert known(log) == (1001, NOW + 20_000)


def test_what_the_owner_released_meanwhile_stays_released(scheduled, reopened):
    log = reopened(scheduled())
    fill(log, [NOW + 1000, NOW + 2000])
    log.delivery.begin_at(0)
    search = log.delivery.plan_search(NOW)
    log.delivery.advance(NOW + 1250)
    assert known(log) == (1, NOW + 2000)
    assert not log.delivery.take(search, search.run())
    assert known(log) == (1, NOW + 2000)


def test_a_search_under_which_the_log_was_cut_counts_for_nothing(scheduled):
    log = scheduled()
    fill(log, [NOW + 1000, NOW + 1000, NOW + 9000])
    log.delivery.begin_at(0)
    search = log.delivery.plan_search(NOW + 1250)
    found = search.run()
    assert found.offset == 2
    log.truncate_to(1)
    fill(log, [NOW + 50_000])
    assert not log.delivery.take(search, found)
    assert log.delivery.watermark == 0
    log.delivery.advance(NOW + 1250)
    assert known(log) == (1, NOW + 50_000)


def test_a_closed_log_is_neither_searched_nor_moved(scheduled):
    log = scheduled()
    fill(log, [NOW + 1000, NOW + 5000])
    log.delivery.begin_at(0)
    search = log.delivery.plan_search(NOW + 1250)
    found = search.run()
    log.delete()
    assert not log.delivery.take(search, found)
    assert not log.delivery.advance(NOW + 1250)
    assert log.delivery.plan_search(NOW + 1250) is None
    with pytest.raises(LogClosed):
        search.run()


def replace_segment(log: PartitionLog, old: Segment) -> None:
    """Let another object stand for a segment's files, with other positions in it, as cleaning does."""
    state = log._state
    rest = old.log.read(SIZE, old.log.size)
    old.log.open().truncate(0)
    old.log.open().write_at(rest, 0)
    new = state.new_segment(old.base_offset, len(rest))
    state.segments.remove(old)
    state.segments.add(new)
    new.rebuild_indexes()


@pytest.mark.parametrize("is_searched", [False, True])
def test_a_segment_that_another_one_has_replaced_is_looked_into_anew(scheduled, is_searched):
    log = scheduled(segment_bytes=4 * SIZE)
    fill(log, [NOW - E, *[NOW + 1000 * number for number in range(1, 7)]])
    replace_segment(log, log._state.segments.first())
    log._state.read_positions.clear()
    if is_searched:
        log.delivery.pending_timestamp = None
        search = log.delivery.plan_search(NOW + 1250)
        assert log.delivery.take(search, search.run())
    else:
        assert log.delivery.advance(NOW + 1250)
    assert known(log) == (2, NOW + 2000)


# --- what else lies in logs ---


def test_messages_of_older_formats_count_with_their_own_time(scheduled):
    log = scheduled()
    times = (NOW - E, -1, NOW + 1000, NOW - E)
    for timestamp in times:
        message = old_message(b"v", magic=0 if timestamp < 0 else 1, offset=log.log_end_offset, timestamp=timestamp)
        log.append(message, leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.advance_high_watermark(log.log_end_offset)
    append(log, timestamp=NOW + 2000)
    log.delivery.advance(NOW)
    assert known(log) == (2, NOW + 1000)
    log.delivery.begin_at(0)
    search = log.delivery.plan_search(NOW + 1250)
    log.delivery.take(search, search.run())
    assert known(log) == (4, NOW + 2000)


def test_a_gap_before_a_pending_batch_holds_nothing_to_read(scheduled):
    log = scheduled()
    for base, timestamp in ((0, NOW - E), (10, NOW - E), (20, NOW + 1000), (30, NOW - E)):
        records = batch(timestamp=timestamp)
        records[:8] = base.to_bytes(8, "big")
        log.append(records, leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.advance_high_watermark(31)
    log.delivery.advance(NOW)
    assert known(log) == (11, NOW + 1000)
    assert log.read(11, max_bytes=1000, bound=11, min_one_batch=True).region is None
    assert log.delivery.advance(NOW + 1250)
    assert known(log) == (31, None)


def test_what_a_preallocated_log_holds_in_memory_only_is_followed_too(scheduled):
    log = scheduled(preallocate=True, segment_bytes=1 << 20, tail_cache_bytes=4096)
    log.direct_writes.defer()
    fill(log, zigzag(2000))
    log.delivery.begin_at(0)
    assert searched(log, NOW + 1250) >= 1
    assert known(log) == (1999, NOW + 9000)
    while (plan := log.direct_writes.plan()) is not None:
        plan.run()
        log.direct_writes.written(plan)
    log.delivery.begin_at(0)
    assert searched(log, NOW + 1250) == 1
    assert known(log) == (1999, NOW + 9000)


def test_a_batch_larger_than_what_is_read_at_once_is_passed_by_its_header(scheduled, fs):
    log = scheduled()
    for _ in range(5):
        append(log, timestamp=NOW + 1000, value=b"v" * 100_000)
    append(log, timestamp=NOW + 5000)
    log.delivery.begin_at(0)
    reads(fs)
    log.delivery.advance(NOW + 1250)
    assert known(log) == (5, NOW + 5000)
    assert len(reads(fs)) == 6


def test_a_truncation_that_fails_has_lowered_what_is_released(scheduled, fs, tmp_path):
    log = scheduled(segment_bytes=SIZE)
    fill(log, [NOW - E] * 3)
    fs.break_("unlink", tmp_path, ".log")
    with pytest.raises(StorageFailure):
        log.truncate_to(1)
    assert log.delivery.watermark == 1
