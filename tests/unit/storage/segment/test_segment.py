import logging
import os

import pytest

from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.segment import recovery
from storage.segment.recovery import recover
from storage.segment.segment import Segment
from storage.segment.segments import MAX_OPEN_SEALED, Segments
from storage.stats import LoadProgress


def batch_at(offset: int, count: int = 1, timestamp: int = 1000, value: bytes = b"v" * 20) -> bytes:
    records = [(b"k", value, (), timestamp + n) for n in range(count)]
    return bytes(build_batch(records, base_offset=offset, leader_epoch=0))


def append(segment: Segment, batch: bytes, last_offset: int, timestamp: int) -> None:
    segment.append(batch, len(batch), last_offset, timestamp)


def new_segment(fs, directory, base=0, **config) -> Segment:
    return Segment(fs, str(directory), base, LogConfig(**config), created_ms=0, jitter_ms=0)


def filled(fs, directory, count=100, base=0, **config) -> Segment:
    segment = new_segment(fs, directory, base, **config)
    segment.create_files()
    for offset in range(base, base + count):
        append(segment, batch_at(offset, timestamp=1000 + offset), offset, 1000 + offset)
    return segment


def test_first_batch_has_no_entry_and_interval_zero_indexes_every_other(fs, tmp_path):
    segment = filled(fs, tmp_path, 10, index_interval_bytes=0)
    assert segment.offset_index.file.count == 9
    assert segment.offset_index.entry(0)[0] == 1


def test_entries_come_when_more_than_the_interval_was_written_before_the_batch(fs, tmp_path):
    size = len(batch_at(0))
    segment = filled(fs, tmp_path, 10, index_interval_bytes=3 * size)
    assert [segment.offset_index.entry(n) for n in range(2)] == [(4, 4 * size), (8, 8 * size)]
    assert [segment.time_index.entry(n) for n in range(2)] == [(1004, 4), (1008, 8)]


def test_every_offset_is_located_also_in_a_sealed_segment_and_after_reload(fs, tmp_path):
    segment = filled(fs, tmp_path, 200, index_interval_bytes=500)
    size = len(batch_at(0))
    assert [segment.locate(offset) for offset in range(200)] == [n * size for n in range(200)]
    assert segment.locate(200) is None
    segment.seal()
    segment.release_files()
    again = Segment(fs, str(tmp_path), 0, LogConfig(), created_ms=0, jitter_ms=0, log_size=segment.size)
    again.set_index_sizes(os.path.getsize(again.offset_index.file.path), os.path.getsize(again.time_index.file.path), 0)
    assert [again.locate(offset) for offset in range(200)] == [n * size for n in range(200)]
    assert again.largest_timestamp == 1199
    assert again.next_offset() == 200


def test_the_end_of_a_window_is_a_batch_boundary_within_it(fs, tmp_path):
    segment = filled(fs, tmp_path, 100, index_interval_bytes=700)
    size = len(batch_at(0))
    for position in (0, 7 * size, 90 * size):
        for max_bytes in (0, size - 1, size, size + 1, 5 * size, 50 * size, 1000 * size):
            end = segment.locate_end(position, max_bytes)
            assert end % size == 0
            assert position <= end <= min(position + max_bytes, segment.size)
            if max_bytes >= size:
                assert end > position
    assert segment.log.end_of_batches(0, 0) == (size, 0)


def test_batches_larger_than_any_window_are_walked(fs, tmp_path):
    segment = new_segment(fs, tmp_path)
    segment.create_files()
    for offset, length in enumerate((10, 50_000, 1_500_000, 10)):
        append(segment, batch_at(offset, value=bytes(length)), offset, 1)
    assert [header.base_offset for _, header in segment.log.headers()] == [0, 1, 2, 3]
    assert [header.base_offset for _, header, _ in segment.log.batches()] == [0, 1, 2, 3]
    walked = [(position, len(data)) for position, _, data in segment.log.batches(window_bytes=64)]
    assert walked[0][0] == 0
    assert sum(size for _, size in walked) == segment.size
    assert segment.log.find_batch(3, 0) == walked[3][0]


@pytest.mark.parametrize("damage", ["torn", "zeros", "flip", "huge", "zero-length", "negative"])
def test_recovery_cuts_at_the_first_bad_byte(fs, tmp_path, damage):
    segment = filled(fs, tmp_path, 50, index_interval_bytes=300)
    size = len(batch_at(0))
    segment.release_files()
    path = tmp_path / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    last = len(data) - size
    expected = 49
    if damage == "torn":
        data += data[last : last + size // 2]
        expected = 50
    elif damage == "zeros":
        data += bytes(65536)
        expected = 50
    elif damage == "flip":
        data[-1] ^= 1
    else:
        data[last + 8 : last + 12] = {"huge": b"\x7f\xff\xff\xff", "zero-length": bytes(4), "negative": b"\xff" * 4}[
            damage
        ]
    path.write_bytes(data)
    again = Segment(
        fs, str(tmp_path), 0, LogConfig(index_interval_bytes=300), created_ms=0, jitter_ms=0, log_size=len(data)
    )
    seen = []
    progress = LoadProgress()
    found = recover(again, lambda header, batch: seen.append(header.base_offset), progress)
    assert found.valid_bytes == expected * size
    assert found.next_offset == expected
    assert found.cut_bytes == len(data) - expected * size
    assert progress.cut_bytes == (0 if damage == "zeros" else found.cut_bytes)
    assert seen == [0], "only the first batch tells of a new epoch"
    assert path.stat().st_size == expected * size
    index_size = os.path.getsize(again.offset_index.file.path)
    assert index_size == again.offset_index.file.count * 8 > 0
    assert again.largest_timestamp == 1000 + expected - 1
    assert again.time_index.last_offset == expected - 1


@pytest.mark.parametrize("stray", [None, 0, 5000, 9999])
def test_a_tail_of_nothing_but_zeros_is_unused_space_and_anything_else_is_damage(
    fs, tmp_path, monkeypatch, caplog, stray
):
    monkeypatch.setattr(recovery, "WINDOW_BYTES", 4096)
    filled(fs, tmp_path, 50).release_files()
    path = tmp_path / "00000000000000000000.log"
    size, tail = path.stat().st_size, bytearray(10_000)
    if stray is not None:
        tail[stray] = 1
    path.write_bytes(path.read_bytes() + tail)
    again = Segment(fs, str(tmp_path), 0, LogConfig(), created_ms=0, jitter_ms=0, log_size=size + len(tail))
    progress = LoadProgress()
    with caplog.at_level(logging.INFO):
        found = recover(again, lambda header, batch: None, progress)
    assert (found.valid_bytes, found.cut_bytes, path.stat().st_size) == (size, len(tail), size)
    told = [(line.levelno, line.getMessage().endswith("reason=unused space")) for line in caplog.records]
    if stray is None:
        assert (told, progress.cut_bytes) == ([(logging.INFO, True)], 0)
    else:
        assert (told, progress.cut_bytes) == ([(logging.WARNING, False)], len(tail))


def test_damaged_index_of_a_sealed_segment_is_rebuilt_when_first_used(fs, tmp_path):
    segment = filled(fs, tmp_path, 100, index_interval_bytes=300)
    segment.seal()
    segment.release_files()
    index_path = tmp_path / "00000000000000000000.index"
    good = index_path.read_bytes()
    size = len(batch_at(0))
    for content in (b"", good[:5], good + bytes(4096), os.urandom(800), good.replace(good[-4:], b"\x7f\0\0\0")):
        index_path.write_bytes(content)
        again = new_segment(fs, tmp_path, index_interval_bytes=300)
        again.log.size = segment.size
        again.set_index_sizes(len(content), os.path.getsize(tmp_path / "00000000000000000000.timeindex"), 0)
        assert again.locate(77) == 77 * size
        again.release_files()
        if content:
            assert index_path.stat().st_size % 8 == 0


def test_truncation_removes_a_spanning_batch_whole(fs, tmp_path):
    segment = new_segment(fs, tmp_path, index_interval_bytes=0)
    segment.create_files()
    for offset in range(0, 30, 3):
        append(segment, batch_at(offset, 3, timestamp=1000 + offset), offset + 2, 1002 + offset)
    segment.truncate_to(10)
    assert segment.next_offset() == 9
    assert segment.largest_timestamp == 1008
    assert segment.offset_index.last_offset == 8


def test_a_pinned_region_outlives_unlink_and_release(fs, tmp_path):
    segment = filled(fs, tmp_path, 3)
    region = segment.log.region(0, segment.size)
    segment.unlink()
    assert not list(tmp_path.iterdir())
    assert region.read()[:8] == bytes(8)
    fd = region.fd
    region.release()
    region.release()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_sealed_segments_beyond_the_bound_give_their_files_back(fs, tmp_path):
    segments = Segments(lambda segment: None)
    for base in range(0, 100, 10):
        segment = filled(fs, tmp_path, 10, base)
        segment.seal()
        segment.release_files()
        segments.add(segment)
    for segment in segments:
        segment.locate(segment.base_offset + 5)
        segments.note_use(segment)
    assert sum(segment.log.file is not None for segment in segments) == MAX_OPEN_SEALED
    assert segments.floor(35).base_offset == 30
    assert segments.floor(-1) is None
    assert [s.base_offset for s in segments.overlapping(35, 60)] == [30, 40, 50]
