"""Time indexes that say too little: found out where some batches show it, and never relied on then."""

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.log.partition_log import PartitionLog
from storage.segment.time_index import ENTRY
from tests.sim.logs import NOW, batch, fill, known, searched

E = 250
SIZE = len(batch())
LATER = NOW + 3_600_000
PER_SEGMENT = 100


def index_of(log: PartitionLog, base: int = 0) -> Path:
    return Path(log.path) / f"{base:020}.timeindex"


def filled(scheduled, timestamps, interval: int = SIZE) -> PartitionLog:
    """Make a log of a sealed segment, and one batch in the next that is due."""
    log = scheduled(segment_bytes=PER_SEGMENT * SIZE, index_interval_bytes=interval)
    fill(log, timestamps)
    assert len(timestamps) == PER_SEGMENT
    fill(log, [NOW])
    assert log.segment_count == 2
    return log


@pytest.fixture(params=[False, True], ids=["looked at", "searched"])
def found(request, scheduled) -> Callable[[PartitionLog, int], tuple[int, int | None]]:
    """Open a log again after a clean stop, and look for what is due."""

    def finder(log: PartitionLog, now_ms: int) -> tuple[int, int | None]:
        again = scheduled(clean=True, high_watermark=log.high_watermark, segment_bytes=PER_SEGMENT * SIZE)
        if request.param:
            search = again.delivery.plan_search(now_ms)
            again.delivery.take(search, search.run())
        searched(again, now_ms)
        return known(again)

    return finder


RISING = [NOW + number * 1000 for number in range(PER_SEGMENT)]
STEEP_AT_THE_END = [NOW] * 90 + [NOW + 5000] + [NOW] * 8 + [LATER]
MIXED = [NOW + number * 7919 % 1000 for number in range(PER_SEGMENT)]
LATE_ONCE = [NOW + 1, LATER] + [NOW] * 98


@pytest.mark.parametrize("kept", [1, 2, 20, 40])
def test_an_older_copy_of_an_index_shows_nothing_early(scheduled, found, kept):
    log = filled(scheduled, RISING)
    log.close()
    index = index_of(log)
    index.write_bytes(index.read_bytes()[: kept * ENTRY.size])
    claimed = ENTRY.unpack(index.read_bytes()[-ENTRY.size :])[0]
    due = (claimed - NOW) // 1000 + 1
    assert found(log, claimed + E) == (due, NOW + due * 1000)


@pytest.mark.parametrize("timestamps", [STEEP_AT_THE_END, LATE_ONCE])
def test_an_index_that_lost_its_last_entry_is_found_out_by_the_batches_behind_or_at_the_end(
    scheduled, found, timestamps
):
    log = filled(scheduled, timestamps)
    log.close()
    index = index_of(log)
    index.write_bytes(index.read_bytes()[: -ENTRY.size])
    pending = timestamps.index(LATER)
    assert found(log, NOW + 5000 + E) == (pending, LATER)
    assert found(log, LATER + E) == (PER_SEGMENT + 1, None)


def test_an_index_of_another_log_shows_nothing_early(scheduled, found):
    log = filled(scheduled, [NOW + 1000 * (number % 7) for number in range(PER_SEGMENT)])
    log.close()
    index_of(log).write_bytes(ENTRY.pack(NOW - 5000, 40) + ENTRY.pack(NOW - 100, PER_SEGMENT - 1))
    assert found(log, NOW + E) == (1, NOW + 1000)


def test_an_index_without_an_entry_says_nothing_of_records_without_a_time(scheduled, found):
    """It is how one looks whose records have no time, and one that lost all it had."""
    log = filled(scheduled, [-1] * 50 + [LATER] + [-1] * 49)
    log.close()
    index_of(log).write_bytes(b"")
    assert found(log, NOW + E) == (50, LATER)


def test_an_index_that_is_made_anew_of_a_damaged_log_says_nothing_of_what_lies_behind(scheduled, found):
    log = filled(scheduled, [NOW] * 50 + [LATER] * 50)
    log.close()
    index_of(log).unlink()
    path = Path(log.path) / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[20 * SIZE + 8 : 20 * SIZE + 12] = bytes(4)
    path.write_bytes(data)
    assert found(log, NOW + E) == (20, None)


def test_what_contradicts_an_index_is_said_once(scheduled, caplog):
    log = filled(scheduled, RISING)
    log.close()
    index = index_of(log)
    index.write_bytes(index.read_bytes()[: 5 * ENTRY.size])
    log = scheduled(clean=True, high_watermark=log.high_watermark, segment_bytes=PER_SEGMENT * SIZE)
    for second in (20, 60):
        log.delivery.begin_at(0)
        searched(log, NOW + second * 1000 + E)
        assert known(log) == (second + 1, NOW + (second + 1) * 1000)
    (said,) = caplog.messages
    assert "says too little" in said and str(index) in said


@pytest.mark.parametrize("timestamps", [RISING, RISING[::-1], STEEP_AT_THE_END, LATE_ONCE, [0] * 100, MIXED])
def test_an_index_that_is_right_is_believed_whatever_the_order_of_the_times(scheduled, timestamps, caplog):
    log = filled(scheduled, timestamps)
    log.close()
    log = scheduled(clean=True, high_watermark=log.high_watermark, segment_bytes=PER_SEGMENT * SIZE)
    caplog.clear()
    assert log.delivery.advance(LATER + E)
    assert known(log) == (PER_SEGMENT + 1, None)
    assert not caplog.messages
