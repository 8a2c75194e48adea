"""A log against a list model: random appends, rolls, truncations and restarts; every read agrees with the list."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from config.views import LogConfig
from storage.env.clock import SeededRng
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from storage.segment.offset_index import OffsetIndex
from tests.sim.logs import NOW, TP, append, batches_of

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, segment_index_bytes=4096)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 120)),
        st.tuples(st.just("roll"), st.just(0), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 100), st.just(0)),
        st.tuples(st.just("log start"), st.integers(0, 100), st.just(0)),
        st.tuples(st.just("restart"), st.booleans(), st.booleans()),
        st.tuples(st.just("read"), st.integers(0, 100), st.integers(1, 2000)),
    ),
    max_size=40,
)


class Clock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ns(self) -> int:
        return 0


class Model:
    """Batches as (base, last) and the two ends."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []
        self.start = 0
        self.end = 0

    def expected(self, offset: int) -> list[tuple[int, int]]:
        return [batch for batch in self.batches if batch[1] >= offset]


def open_log(root: Path, model: Model, *, clean: bool, validate: bool) -> PartitionLog:
    config = LogConfig(segment_bytes=900, index_interval_bytes=150, segment_index_bytes=4096, validate_on_open=validate)
    log = PartitionLog.open(
        PosixFileSystem(),
        Clock(),
        SeededRng(1),
        str(root / "t-0"),
        TP,
        config,
        clean=clean,
        log_start_offset=model.start,
    )
    log.advance_high_watermark(log.log_end_offset)
    return log


def read_from(log: PartitionLog, offset: int, max_bytes: int) -> list[tuple[int, int]]:
    found = log.read(offset, max_bytes=max_bytes, bound=log.high_watermark, min_one_batch=True)
    if found.region is None:
        return []
    headers = batches_of(found.region.read())
    found.region.release()
    assert found.size <= max_bytes or len(headers) == 1
    return [(header.base_offset, header.last_offset) for header in headers]


def check_everything(log: PartitionLog, model: Model) -> None:
    assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
    offset, seen = model.start, []
    while part := (read_from(log, offset, 500) if offset < model.end else []):
        seen += part
        offset = part[-1][1] + 1
    assert seen == model.expected(model.start)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_a_log_behaves_like_a_list(script):
    root = Path(tempfile.mkdtemp())
    try:
        model = Model()
        log = open_log(root, model, clean=False, validate=True)
        for action, first, second in script:
            if action == "append":
                result = append(log, first, value=bytes(second))
                assert result.base_offset == model.end
                model.batches.append((model.end, model.end + first - 1))
                model.end += first
            elif action == "roll":
                log.roll()
            elif action == "truncate":
                offset = model.start + (model.end - model.start) * first // 100
                log.truncate_to(offset)
                model.batches = [batch for batch in model.batches if batch[1] < offset]
                model.end = min(model.end, offset)
                log.advance_high_watermark(model.end)
            elif action == "log start":
                model.start += (model.end - model.start) * first // 100
                log.increment_log_start_offset(model.start)
            elif action == "restart":
                if first:
                    log.close()
                else:
                    log.fail()
                if model.batches and model.end != model.batches[-1][1] + 1:
                    model.end = max(model.batches[-1][1] + 1, model.start)  # the gap of a truncation is not stored
                elif not model.batches:
                    model.end = max(log.first_segment_base_offset, model.start)
                if model.batches and model.batches[-1][1] < model.start:
                    model.batches = []
                log = open_log(root, model, clean=bool(first), validate=bool(second))
                if model.end < log.log_end_offset:
                    model.end = log.log_end_offset
            else:
                offset = model.start + (model.end - model.start) * first // 100
                expected = model.expected(offset)
                got = read_from(log, offset, second) if offset < model.end else []
                assert got == expected[: len(got)]
                assert bool(got) == bool(expected)
            check_everything(log, model)
        log.fail()
    finally:
        shutil.rmtree(root)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), min_size=1, max_size=1500), st.data())
def test_index_lookups_equal_a_linear_scan(deltas, data):
    root = Path(tempfile.mkdtemp())
    try:
        index = OffsetIndex(PosixFileSystem(), str(root / "x.index"), 7, 8 * len(deltas))
        index.file.make_writable(8 * len(deltas))
        entries, offset, position = [], 7, 0
        for step, size in deltas:
            offset, position = offset + step, position + size
            index.append(offset, position)
            entries.append((offset, position))
            if data.draw(st.integers(0, 200)) == 0:
                target = data.draw(st.integers(0, offset + 10))
                assert index.lookup(target) == max((p for o, p in entries if o <= target), default=0)
        for _ in range(10):
            target = data.draw(st.integers(0, offset + 10))
            assert index.lookup(target) == max((p for o, p in entries if o <= target), default=0)
            limit = data.draw(st.integers(0, position + 10))
            assert index.boundary_at_or_before(limit) == max((p for _, p in entries if p <= limit), default=0)
    finally:
        shutil.rmtree(root)
