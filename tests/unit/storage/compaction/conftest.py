"""A small compacted log and ways to fill it."""

import pytest

from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.log.partition_log import PartitionLog
from storage.types import AppendOrigin
from tests.sim.logs import TP

COMPACT = LogConfig(
    segment_bytes=1 << 20,
    segment_index_bytes=1 << 16,
    index_interval_bytes=200,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=5000,
    min_cleanable_dirty_ratio=0.0,
    message_timestamp_after_max_ms=(1 << 63) - 1,
)


@pytest.fixture
def open_log(fs, clock, rng, tmp_path):
    def open_(config: LogConfig = COMPACT, **options) -> PartitionLog:
        return PartitionLog.open(fs, clock, rng, str(tmp_path / "t-0"), TP, config, **options)

    return open_


@pytest.fixture
def put(clock):
    """Append one batch of (key, value) pairs and let it be replicated."""

    def put_(log: PartitionLog, *records, roll: bool = False, origin=AppendOrigin.CLIENT, **fields) -> int:
        fields.setdefault("timestamp", clock.now_ms())
        result = log.append(build_batch(records, **fields), leader_epoch=0, origin=origin)
        log.advance_high_watermark(log.log_end_offset)
        if roll:
            log.roll()
        return result.base_offset

    return put_
