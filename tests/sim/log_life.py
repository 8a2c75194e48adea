"""One log in a directory of its own beside its model, and what every step of its random life is made of.

Everything random comes from one generator, so a seed is a life. The steps are in log_steps and log_cleaning, the
restarts in log_restarts, the comparisons in log_checks; log_lives puts them together.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence

from config.views import LONG_MAX, LogConfig
from protocol.records.batch import LOG_APPEND_TIME_BIT
from protocol.records.builder import build_batch
from storage.dirs.manager import LogManager
from storage.env.clock import SeededRng
from storage.log.removal import Removal
from storage.types import AppendOrigin
from tests.sim.crash_fs import CrashFS
from tests.sim.log_model import LogModel, Stored, replay, stored_batches
from tests.sim.logs import NOW, TP

IDEMPOTENT, TRANSACTIONAL = (1, 2), (11, 12, 13)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(
    segment_bytes=1500,
    segment_ms=40_000,
    index_interval_bytes=150,
    segment_index_bytes=4096,
    retention_ms=60_000,
    retention_bytes=6000,
    file_delete_delay_ms=5000,
    delete_retention_ms=10_000,
    message_timestamp_after_max_ms=LONG_MAX,
    max_message_bytes=1200,
    writeback_window_bytes=0,
)
"""Small enough that rolls, full indexes and removals come all the time."""

SETTINGS: dict[str, Sequence[object]] = {
    "segment_bytes": (1300, 1500, 2500, 5000),
    "segment_ms": (5000, 40_000, 604_800_000),
    "segment_jitter_ms": (0, 1000),
    "segment_index_bytes": (36, 60, 4096),
    "index_interval_bytes": (0, 150, 4096),
    "preallocate": (False, True),
    "tail_cache_bytes": (0, 300, 1 << 20),
    "flush_messages": (1, 5, LONG_MAX),
    "flush_ms": (0, 2000, LONG_MAX),
    "flush_on_append": (False, False, True),
    "validate_on_open": (False, True),
    "retention_ms": (-1, 0, 20_000, 60_000),
    "retention_bytes": (-1, 0, 4000, 8000),
    "file_delete_delay_ms": (0, 5000),
    "cleanup_policy": tuple(map(frozenset, (["delete"], ["compact"], ["compact"], ["compact", "delete"], []))),
    "delete_retention_ms": (0, 10_000),
    "min_compaction_lag_ms": (0, 0, 5000),
    "max_compaction_lag_ms": (3000, LONG_MAX),
    "compression_type": ("producer", "producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "message_timestamp_type": ("CreateTime", "CreateTime", "LogAppendTime"),
    "writeback_window_bytes": (0, 700),
    "page_cache_budget_bytes": (None, 4096),
    "timestamp_scan_window_bytes": (1, 200, 65536),
    "read_buffer_cap_bytes": (1, 4096),
}

Rows = list[tuple[bytes, bytes | None, list[tuple[str, bytes]], int]]  # key, value, headers, timestamp


class Clock:
    def __init__(self) -> None:
        self.now = NOW
        self.set_by_ms = 0  # how far somebody has set the wall clock

    def now_ms(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return (self.now - self.set_by_ms) * 1_000_000

    def set_by(self, shift_ms: int) -> None:
        """Set the wall clock; no time passes."""
        self.now += shift_ms
        self.set_by_ms += shift_ms


class Life:
    """One log, its model, and what may be done to both."""

    settings: Mapping[str, Sequence[object]] = SETTINGS

    def __init__(self, root: str, chance: random.Random, *, direct_block_bytes: int | None, is_deferring: bool) -> None:
        self.chance = chance
        self.clock = Clock()
        self.model = LogModel()
        self.config = CONFIG
        self.epoch = 0
        self.script: list[str] = []  # what was done, for whoever reads a failure
        self.root = root
        self.incarnation = 0  # number of the disk; a crash of the machine makes the next one
        self.direct_block_bytes = direct_block_bytes
        self.is_deferring = is_deferring  # direct writes come later than the appends
        self.is_lagging = False  # the high watermark stays where it is
        self.attempt: tuple[int, Rows] | None = None  # what may be in the log though its append did not return
        self.doing = ""
        self.answered_start = 0  # a restart finds no lower log start
        self.wanted_start = 0  # nor a higher one
        self.epochs_from = 0  # deleted records that come back in a crash need not know theirs
        self.cleaned_to = 0
        self.may_forget = False  # a producer may be known by an older batch than its newest
        self.window_is_full = False
        self.is_writing = False
        self.is_flushing = False
        self.fs = self.new_fs()
        self.manager = self._new_manager()
        self.log = self.manager.create(TP, TOPIC_ID, self.config)
        self.log.flush()
        self._begin()

    @property
    def path(self) -> str:
        return os.path.join(self.root, str(self.incarnation))

    @property
    def directories(self) -> list[str]:
        """The log directories, of which one has the log."""
        return [self.path]

    @property
    def was_clean(self) -> bool:
        """Whether the directory of the log was stopped in order before the last start."""
        return self.manager.dir_of(TP).was_clean  # type: ignore[union-attr]

    def new_fs(self) -> CrashFS:
        for path in self.directories:
            os.makedirs(path, exist_ok=True)
        return CrashFS(self.path, direct_block_bytes=self.direct_block_bytes)

    def _new_manager(self) -> LogManager:
        manager = LogManager(self.fs, self.clock, SeededRng(self.chance.randrange(1 << 30)), self.directories)
        manager.open_dirs(1, "cluster")
        manager.load_all(lambda tp: self.config)
        return manager

    def reopen(self) -> None:
        self.manager = self._new_manager()
        self.log = self.manager.logs[TP]
        self._begin()

    def _begin(self) -> None:
        self.is_writing = self.is_flushing = False
        self.pending: tuple[Removal, bool] | None = None
        if self.is_deferring:
            self.log.direct_writes.defer()
        self.log.durability.watch(on_rolled=lambda: None, on_window_full=self._on_window_full)

    def _on_window_full(self) -> None:
        self.window_is_full = True

    def is_known(self, producer_id: int) -> bool:
        return producer_id in {entry.producer_id for entry in self.log.active_producers()}

    def finish_removal(self) -> None:
        if self.pending is not None:
            (removal, _), self.pending = self.pending, None
            removal.rename()
            self.log.removed(removal)
            self.answered_start = max(self.answered_start, self.bases()[0])

    def meanwhile(self, steps: Sequence[Step]) -> None:
        """Let something happen between two parts of a step, or not."""
        if self.chance.random() < 0.3:
            doing, step = self.doing, self.chance.choice(steps)
            self.script.append("- " + step.__name__)
            step(self)
            self.doing = doing

    def rows(self) -> Rows:
        chance = self.chance
        has_time = chance.random() < 0.95
        rows = []
        for _ in range(chance.choice((1, 1, 2, 5))):
            key = b"%d" % chance.randint(0, 9)
            value = None if chance.random() < 0.15 else chance.randbytes(chance.choice((0, 5, 60)))
            timestamp = self.clock.now + chance.randint(-2000, 2000) if has_time else -1
            rows.append((key, value, [("h", b"x")], timestamp))
        return rows

    def next_of(self, producer_id: int, *, bump: bool = False) -> dict[str, int]:
        known = replay(self.model.appended).producers.get(producer_id)
        epoch, sequence = known.epoch if known is not None else 0, 0
        for entry in self.log.active_producers():
            if entry.producer_id == producer_id:
                epoch, sequence = entry.producer_epoch, entry.last_sequence + 1  # 0 where its batches are gone
        if bump:
            epoch, sequence = epoch + 1, 0
        return {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}

    def append(self, rows: Rows, **fields) -> None:
        if "producer_id" in fields:
            rows = [(*row[:3], self.clock.now if row[3] < 0 else row[3]) for row in rows]
        batch = build_batch(rows, **fields)
        self.attempt = (self.model.end, [row[:2] for row in rows])
        stored = self.append_bytes(batch)
        if not stored.header.attributes & LOG_APPEND_TIME_BIT:
            assert [record.timestamp for record in stored.records] == [row[3] for row in rows]
        else:
            assert {record.timestamp for record in stored.records} == {self.clock.now}
        assert [record[2:] for record in stored.records] == [(row[0], row[1], (("h", b"x"),)) for row in rows]

    def append_bytes(self, batch: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> Stored:
        if origin is AppendOrigin.COORDINATOR:
            self.attempt = (self.model.end, [record[2:4] for record in stored_batches(bytes(batch))[0].records])
        result = self.log.append(
            bytes(batch) if self.chance.random() < 0.5 else batch, leader_epoch=self.epoch, origin=origin
        )
        assert not result.is_duplicate and result.base_offset == self.model.end
        found = self.log.read(result.base_offset, max_bytes=1, bound=self.log.log_end_offset, min_one_batch=True)
        (stored,) = stored_batches(content(found))
        assert (stored.base, stored.last) == (result.base_offset, result.last_offset)
        assert stored.header.partition_leader_epoch == self.epoch
        self.model.add([stored])
        self._after_append()
        return stored

    def _after_append(self) -> None:
        self.attempt = None
        if self.log.durability.is_flush_due(self.log.recovery_point):
            self.flush()
        self.advance()

    def flush(self) -> None:
        if self.is_writing or self.is_flushing:
            return  # an owner waits for the write first, and for the flush that runs
        self.log.flush()
        self.model.durable = self.log.recovery_point
        assert self.model.durable == self.model.end

    def advance(self) -> None:
        if not self.is_lagging:
            self.log.advance_high_watermark(self.model.end)
        if not self.log.direct_writes.has_unwritten and not self.is_lagging:
            assert self.log.high_watermark == self.model.end
        assert self.model.high_watermark <= self.log.high_watermark
        self.model.high_watermark = self.log.high_watermark

    def before_retention(self) -> None:
        """Tell the model what it cannot know of what retention may take."""

    def deletable_end(self) -> int:
        """Return below what records may be deleted on demand."""
        return self.model.high_watermark

    def check_own(self) -> None:
        """Compare what only this kind of life has."""

    def end(self) -> None:
        """Do what is checked of this kind of life when it is over."""

    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log._state.segments]

    def on_disk(self) -> list[Stored]:
        """Read the segments of the log, past indexes and reader."""
        return [
            batch
            for segment in self.log._state.segments
            for batch in stored_batches(bytes(segment.log.read(0, segment.log.size)))
        ]


def content(found) -> bytes:
    if found.region is None:
        return b""
    data = bytes(found.region.read())
    found.region.release()
    return data


Step = Callable[[Life], None]
