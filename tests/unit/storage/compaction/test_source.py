"""Reading a source: every batch once, whatever the window, and nothing that is not whole."""

import pytest

from protocol.records.builder import build_batch
from protocol.records.errors import CorruptBatch
from storage.compaction.source import SourceLog
from storage.compaction.task import SourceSegment
from tests.harness.batches import old_message


@pytest.fixture
def source(fs, tmp_path):
    """Make a source of these bytes."""

    def source_(
        data: bytes, *, window: int = 1000, size: int | None = None, end: int = 1000, on_read=lambda size: None
    ):
        (tmp_path / f"{0:020d}.log").write_bytes(data)
        segment = SourceSegment(0, len(data) if size is None else size)
        return SourceLog(fs, str(tmp_path), segment, end_offset=end, window_bytes=window, on_read=on_read)

    return source_


BATCHES = [
    old_message(b"v", key=b"k", magic=0, offset=0),
    *[bytes(build_batch([(b"k", b"v" * size)], base_offset=n + 1)) for n, size in enumerate((0, 700, 3, 90, 5000, 1))],
    old_message(b"v", key=b"k", magic=1, offset=50),
]


@pytest.mark.parametrize("window", [1, 61, 62, 100, 333, 4000, 1 << 20])
def test_every_batch_is_found_once_whatever_the_window(source, window):
    sizes = []
    found = list(source(b"".join(BATCHES), window=window, on_read=sizes.append).batches())
    assert [data[start:end] for data, start, end, _ in found] == BATCHES
    assert [header.base_offset for *_, header in found] == [0, 1, 2, 3, 4, 5, 6, 50]
    assert sum(sizes) == len(b"".join(BATCHES)) and 0 not in sizes


def test_a_walk_may_begin_at_any_batch(source):
    found = list(source(b"".join(BATCHES)).batches(len(BATCHES[0]) + len(BATCHES[1])))
    assert [header.base_offset for *_, header in found] == [2, 3, 4, 5, 6, 50]


@pytest.mark.parametrize("cut", [1, 30, 61, 90])
@pytest.mark.parametrize("window", [61, 10_000])
def test_a_batch_that_is_cut_is_damage(source, window, cut):
    with pytest.raises(CorruptBatch):
        list(source(b"".join(BATCHES[:6])[:-cut], window=window).batches())


def test_a_file_that_is_shorter_than_the_segment_is_damage(source):
    data = b"".join(BATCHES)
    with pytest.raises(CorruptBatch):
        list(source(data[: -len(BATCHES[-1])], size=len(data)).batches())


def test_zeros_at_the_end_are_damage(source):
    with pytest.raises(CorruptBatch):
        list(source(BATCHES[1] + bytes(100)).batches())


def test_what_lies_behind_the_logical_end_is_not_read(source):
    found = list(source(BATCHES[1] + bytes(100), size=len(BATCHES[1])).batches())
    assert len(found) == 1


@pytest.mark.parametrize(("order", "end"), [((1, 1), 1000), ((2, 1), 1000), ((1, 2, 3), 3)])
def test_offsets_ascend_and_stay_below_the_next_segment(source, order, end):
    with pytest.raises(CorruptBatch):
        list(source(b"".join(BATCHES[n] for n in order), end=end).batches())
