"""What the delivery watermark does about what cannot be read: what is due before it is shown, the rest waits."""

import errno
import logging
from pathlib import Path

import pytest

from config.views import LogConfig
from storage.log.delivery import MAX_STEPS
from storage.log.partition_log import PartitionLog
from storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from storage.segment.time_index import ENTRY as TIME_ENTRY
from tests.sim.faulty_fs import FaultyFS
from tests.sim.logs import NOW, append, batch, batches_of, fill, known, searched

E = 250
SIZE = len(batch())
DUE, LATER, LATEST = NOW + 1000, NOW + 5000, NOW + 9000
FEW = 2 * SIZE
HEADERS = {
    "no length": (8, bytes(4)),
    "a length beyond the end": (8, (1 << 30).to_bytes(4, "big")),
    "a negative length": (8, (-5).to_bytes(4, "big", signed=True)),
    "an unknown format": (16, b"\x07"),
    "a lower offset": (0, bytes(8)),
    "an offset beyond the segment": (0, (1 << 40).to_bytes(8, "big")),
    "a negative delta": (23, b"\xff\xff\xff\x00"),
    "a delta beyond the segment": (23, b"\x0f\xff\xff\xff"),
    "nothing but zeros": (0, bytes(SIZE)),
}
damaged_headers = pytest.mark.parametrize(("at", "data"), HEADERS.values(), ids=HEADERS.keys())


@pytest.fixture
def fs() -> FaultyFS:
    return FaultyFS()


def file_of(log: PartitionLog, suffix: str, base: int = 0) -> Path:
    return Path(log.path) / f"{base:020}.{suffix}"


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def visible(log: PartitionLog) -> list[int]:
    """Read what a consumer may, from the log start on."""
    offsets: list[int] = []
    offset = log.log_start_offset
    while offset < log.delivery.watermark:
        found = log.read(offset, max_bytes=1 << 20, bound=log.delivery.watermark, min_one_batch=True)
        if found.region is None:
            break
        headers = batches_of(found.region.read())
        found.region.release()
        offsets += [header.base_offset for header in headers]
        assert headers[-1].next_offset > offset, offsets
        offset = headers[-1].next_offset
    return offsets


def partly_pending(opener, **options) -> PartitionLog:
    """Make a log of a sealed segment, offsets 0 to 9 of which 8 is due later, and one that is due with that."""
    log = opener(segment_bytes=10 * SIZE, **options)
    fill(log, [DUE] * 8 + [LATER, DUE] + [LATER] * 3)
    assert log.segment_count == 2
    return log


# --- damage in the batches ---


def test_a_read_error_holds_the_watermark_and_is_said_once_until_it_is_over(scheduled, fs, tmp_path, caplog):
    log = scheduled()
    fill(log, [NOW - E, NOW + 1000, NOW + 1000, NOW + 2000, NOW + 3000])
    fault = fs.break_("read", tmp_path, ".log", code=errno.EIO)
    for count in range(1, 4):
        assert not log.delivery.advance(NOW + 1250)
        assert fault.met >= count
    assert log.delivery.watermark == 1 and log.delivery.is_behind
    (said,) = caplog.records
    assert said.levelno == logging.ERROR and "cannot be read" in said.message and "watermark=1" in said.message
    assert searched(log, NOW + 1250) == 1
    assert len(caplog.records) == 1
    fs.faults.clear()
    assert log.delivery.advance(NOW + 1250)
    assert known(log) == (3, NOW + 2000)
    fs.break_("read", tmp_path, ".log", code=errno.EIO)
    assert not log.delivery.advance(NOW + 2250)
    assert len(caplog.records) == 2


def test_what_was_read_before_an_error_is_shown(scheduled, reopened, fs, tmp_path):
    log = scheduled(index_interval_bytes=1 << 20)
    fill(log, [DUE] * MAX_STEPS + [LATER])
    log = reopened(log, index_interval_bytes=1 << 20)
    fs.break_("read", tmp_path, ".log", code=errno.EIO, spared=1)
    assert log.delivery.advance(DUE + E)
    assert 0 < log.delivery.watermark < MAX_STEPS and log.delivery.has_failed
    assert visible_end(log) == log.delivery.watermark
    fs.faults.clear()
    fs.break_("read", tmp_path, ".log", code=errno.EIO, spared=2)
    before = log.delivery.watermark
    found = log.delivery.plan_search(DUE + E).run()
    assert before < found.offset < MAX_STEPS and found.failure is not None


def visible_end(log: PartitionLog) -> int:
    log._state.fs.faults.clear()
    return visible(log)[-1] + 1


@damaged_headers
@pytest.mark.parametrize("is_searched", [False, True], ids=["looked at", "searched"])
def test_what_is_due_before_a_damaged_batch_is_shown_after_a_restart(
    scheduled, reopened, caplog, at, data, is_searched
):
    log = partly_pending(scheduled)
    overwrite(file_of(log, "log"), 4 * SIZE + at, data)
    log = reopened(log, segment_bytes=10 * SIZE)
    if is_searched:
        search = log.delivery.plan_search(DUE + E)
        assert log.delivery.take(search, search.run())
    else:
        assert log.delivery.advance(DUE + E)
    for _ in range(3):
        assert searched(log, DUE + E) == 1
    assert log.delivery.watermark == 4 and log.delivery.is_behind
    assert visible(log) == [0, 1, 2, 3]
    assert len(caplog.records) == 1
    log.delivery.advance(LATER + E - 1)
    assert log.delivery.watermark == 4
    log.delivery.advance(LATER + E)
    assert known(log) == (13, None)
    assert not log.delivery.has_failed


@damaged_headers
def test_a_damaged_header_holds_the_watermark_before_it_while_the_log_is_open(scheduled, caplog, at, data):
    log = scheduled()
    fill(log, [DUE, DUE, LATER, DUE])
    overwrite(file_of(log, "log"), SIZE + at, data)
    assert log.delivery.advance(DUE + E)
    assert log.delivery.watermark == 1 and log.delivery.is_behind
    assert searched(log, DUE + E) == 1
    assert log.delivery.watermark == 1 and visible(log) == [0]
    assert len(caplog.records) == 1


def test_damage_behind_what_is_pending_is_of_no_concern_until_that_is_due(scheduled, reopened, caplog):
    log = partly_pending(scheduled)
    fill(log, [LATER] * 6 + [LATEST] * 2)
    overwrite(file_of(log, "log", 10), 4 * SIZE + 8, bytes(4))
    log = reopened(log, segment_bytes=10 * SIZE)
    searched(log, DUE + E)
    assert known(log) == (8, LATER) and not caplog.records
    searched(log, LATER + E)
    assert log.delivery.watermark == 14 and log.delivery.is_behind
    assert len(caplog.records) == 1


def test_damage_at_the_log_start_hides_what_lies_behind_until_the_segment_is_due(scheduled, reopened):
    log = partly_pending(scheduled, index_interval_bytes=1 << 20)
    log.delivery.advance(DUE + E)
    log.increment_log_start_offset(5)
    overwrite(file_of(log, "log"), 2 * SIZE + 8, bytes(4))
    log = reopened(log, log_start_offset=5, segment_bytes=10 * SIZE)
    assert searched(log, DUE + E) == 1
    assert log.delivery.watermark == 5
    log.delivery.advance(LATER + E)
    assert known(log) == (13, None)


def test_a_file_that_lost_its_end_holds_the_watermark(scheduled, caplog):
    log = scheduled()
    fill(log, [NOW + 1000] * 3)
    log._state.segments.active.log.open().truncate(2 * SIZE - 10)
    log.delivery.advance(NOW + 1100)
    log.delivery.begin_at(0)
    log._state.segments.active.largest_timestamp = NOW + 9000
    log.delivery.advance(NOW + 1250)
    assert log.delivery.watermark < 3 and log.delivery.is_behind
    assert caplog.records


@pytest.mark.parametrize("suffix", [".timeindex", ".index"])
def test_an_index_that_could_not_be_read_once_shows_nothing_early(scheduled, fs, suffix):
    """Nothing is known of its segment then, which is not to say that it holds nothing later."""
    log = partly_pending(scheduled, index_interval_bytes=FEW)
    log.close()
    log = scheduled(clean=True, high_watermark=13, segment_bytes=10 * SIZE)
    fs.break_("open", Path(log.path), f"{0:020}{suffix}", code=errno.EMFILE)
    assert not log.delivery.advance(DUE + E) and log.delivery.has_failed
    fs.faults.clear()
    searched(log, DUE + E)
    assert known(log) == (8, LATER) and log._state.segments.first().largest_timestamp == LATER


# --- damage, and what the time index says ---


@pytest.mark.parametrize("is_searched", [False, True], ids=["looked at", "searched"])
def test_what_an_index_knows_to_be_due_behind_the_damage_is_shown(scheduled, reopened, is_searched):
    log = scheduled(segment_bytes=10 * SIZE, index_interval_bytes=FEW)
    fill(log, [DUE + number for number in range(8)] + [LATEST, DUE] + [LATEST])
    overwrite(file_of(log, "log"), 2 * SIZE + 8, bytes(4))
    log = reopened(log, segment_bytes=10 * SIZE)
    if is_searched:
        search = log.delivery.plan_search(LATER)
        assert log.delivery.take(search, search.run())
    else:
        assert log.delivery.advance(LATER)
    assert known(log) == (8, LATEST) and not log.delivery.has_failed


def test_an_entry_that_damage_keeps_from_being_found_hides_nothing_before_that(scheduled, reopened):
    log = scheduled(segment_bytes=200 * SIZE, index_interval_bytes=20 * SIZE)
    fill(log, [DUE + number for number in range(150)] + [LATEST])
    segment = log._state.segments.active
    time, offset = segment.time_index.lookup(DUE + 149)
    position = segment.offset_index.lookup(offset - 1)
    log.close()
    overwrite(file_of(log, "timeindex"), (segment.time_index.file.count - 2) * 12, TIME_ENTRY.pack(DUE + 149, 149))
    damaged = position // SIZE + 3
    overwrite(file_of(log, "log"), damaged * SIZE + 8, bytes(4))
    log = scheduled(clean=True, high_watermark=151, segment_bytes=200 * SIZE)
    searched(log, LATER)
    assert time < DUE + 149 and log.delivery.watermark == damaged


@pytest.mark.parametrize("is_searched", [False, True], ids=["looked at", "searched"])
def test_an_entry_of_another_log_is_not_followed(scheduled, reopened, is_searched):
    log = scheduled(index_interval_bytes=4 * SIZE)
    fill(log, [DUE - 1000 + number for number in range(100)] + [LATER] + [DUE + number for number in range(100)])
    append(log, timestamp=LATEST)
    log.close()
    file_of(log, "timeindex").write_bytes(TIME_ENTRY.pack(DUE + 40, 150) + TIME_ENTRY.pack(LATEST, 201))
    log = scheduled(clean=True, high_watermark=202)
    if is_searched:
        search = log.delivery.plan_search(DUE + E + 50)
        log.delivery.take(search, search.run())
    searched(log, DUE + E + 50)
    assert known(log) == (100, LATER)


# --- damage in the offset index alone ---


def reopened_at(opener, log: PartitionLog, start: int, index: bytes, config: LogConfig) -> PartitionLog:
    """Close a log and open it with another offset index of its first segment, and with a later start."""
    log.close()
    file_of(log, "index").write_bytes(index)
    options = {"segment_bytes": config.segment_bytes, "index_interval_bytes": config.index_interval_bytes}
    return opener(clean=True, high_watermark=log.high_watermark, log_start_offset=start, **options)


INDEXES = {
    "into a batch": OFFSET_ENTRY.pack(1, 5) + OFFSET_ENTRY.pack(9, 9 * SIZE),
    "to a batch that is too far": OFFSET_ENTRY.pack(1, 6 * SIZE) + OFFSET_ENTRY.pack(9, 9 * SIZE),
    "to the last batch": OFFSET_ENTRY.pack(1, 9 * SIZE) + OFFSET_ENTRY.pack(2, 9 * SIZE),
    "into the last batch": OFFSET_ENTRY.pack(1, 9 * SIZE + 30) + OFFSET_ENTRY.pack(2, 9 * SIZE + 30),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES.keys())
def test_an_offset_index_that_leads_astray_leads_over_nothing_that_is_pending(scheduled, index):
    log = scheduled(segment_bytes=10 * SIZE, index_interval_bytes=FEW)
    fill(log, [DUE - 1000] * 3 + [DUE, LATER] + [DUE] * 4 + [LATEST] * 2)
    log.delivery.advance(NOW + E)
    log.increment_log_start_offset(3)
    log = reopened_at(scheduled, log, 3, index, log.config)
    log.delivery.advance(DUE + E - 1)
    assert log.delivery.watermark == 3
    searched(log, DUE + E)
    assert known(log) == (4, LATER)
    searched(log, LATER + E)
    assert known(log) == (9, LATEST)


def test_offsets_that_are_missing_where_a_log_begins_are_searched_for(scheduled):
    log = scheduled(segment_bytes=10 * SIZE, index_interval_bytes=FEW)
    fill(log, [DUE] * 9 + [LATER])
    fill(log, [LATER] * 3)
    log.delivery.advance(DUE + E)
    log.increment_log_start_offset(7)
    index = file_of(log, "index").read_bytes()
    log = reopened_at(scheduled, log, 7, index[:8], log.config)
    searched(log, DUE + E)
    assert known(log) == (9, LATER)
