"""One pass of a cleaning, files to files: learn the newest offset of each dirty key, then write what is still needed.

1. fill the offset map from the dirty part, from first dirty on, until its end or until the map is full;
2. group the segments below the end of the map so that the small ones become one;
3. write each group as a `.cleaned` segment: judge batches and records, keep offsets as they are.

Only reads the sources and only writes `.cleaned` files, so that it may run in another process. Whoever receives the
result installs it (swap). Source: Kafka's Cleaner.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from config.views import INT_MAX, NO_DECOMPRESSED_LIMIT
from protocol.records.batch import CODEC_MASK, CONTROL_BIT, DELETE_HORIZON_BIT, HEADER_SIZE, MAGIC_V2, BatchHeader
from protocol.records.compression import decompress
from protocol.records.control import control_type_of
from protocol.records.errors import RecordsError
from protocol.records.keys import KeyedRecord, keyed_records
from protocol.records.scan import largest_body
from storage.compaction.batches import UNCHANGED, empty_batch, rebuilt_batch
from storage.compaction.legacy import filter_legacy, legacy_keys
from storage.compaction.offset_map import SLOT_BYTES, OffsetMap
from storage.compaction.output import CleanedOutput, remove_cleaned
from storage.compaction.plan import SegmentSizes, group_segments
from storage.compaction.retain import BatchRules, BatchVerdict, CleanedTransactions, Fate
from storage.compaction.source import SourceLog
from storage.compaction.task import (
    CleanedGroup,
    CleaningResult,
    CleaningStats,
    CleaningTask,
    Progress,
    SourceSegment,
)
from storage.env.clock import Clock
from storage.env.fs import FileSystem
from storage.errors import CorruptIndex, Uncleanable
from storage.segment.log_file import parse_any_header
from storage.segment.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from storage.segment.offset_index import OffsetIndex
from storage.segment.txn_index import AbortedTxn, TxnIndex

_SLOTS_PER_OFFSET: Final = 2  # a table filled by half rarely probes


def rewrite(
    task: CleaningTask,
    fs: FileSystem,
    clock: Clock,
    *,
    report: Callable[[Progress], None],
) -> CleaningResult:
    """Run one pass. A group that was reported as finished belongs to whoever took the report.

    `report` is called with each window that was read, and may take its time: that is how a pass is slowed down.

    Raises: Uncleanable when the data does not allow it, OSError; the files of the unfinished group are then gone, those
    of reported ones are left to `remove_cleaned`. Blocking: disk, cpu.
    """
    remove_cleaned(fs, task.directory)  # of an earlier pass: see storage.compaction.swap
    try:
        return _Pass(task, fs, clock, report).run()
    except (RecordsError, CorruptIndex) as error:
        raise Uncleanable(str(error)) from error


class _Pass:
    """The state of one pass."""

    def __init__(
        self,
        task: CleaningTask,
        fs: FileSystem,
        clock: Clock,
        report: Callable[[Progress], None],
    ) -> None:
        self._task = task
        self._fs = fs
        self._clock = clock
        self._report = report
        self._levels = dict(task.compression_levels)
        bases = [source.base_offset for source in task.sources]
        self._end_offsets = dict(zip(bases, [*bases[1:], task.first_uncleanable_offset], strict=True))
        self._aborted = list(self._aborted_transactions())
        # Asked before any group is done: whoever takes a group may rename its sources while the pass goes on.
        self._legacy_horizon_ms = self._find_legacy_horizon_ms()
        self._started_ns = clock.monotonic_ns()
        dirty_offsets = task.first_uncleanable_offset - task.first_dirty_offset
        slots = int(dirty_offsets * max(_SLOTS_PER_OFFSET, 1 / task.load_factor)) + 2  # more would stay empty
        self._buffer_slots = max(task.dedupe_buffer_bytes // SLOT_BYTES, 1)
        self._map = OffsetMap(SLOT_BYTES * min(self._buffer_slots, slots))
        # Counts, written by both phases.
        self._map_bytes_read = 0
        self._bytes_read = 0
        self._bytes_to_read = 0
        self._bytes_written = 0
        self._records_read = 0
        self._records_written = 0
        self._invalid_records = 0

    def run(self) -> CleaningResult:
        task = self._task
        with closing(self._map):
            self._fill_map()
            map_ns = self._clock.monotonic_ns() - self._started_ns
            end_offset = self._map.latest_offset + 1
            sources = [source for source in task.sources if source.base_offset < end_offset]
            self._bytes_to_read = self._map_bytes_read + sum(source.log_bytes for source in sources)
            transactions = CleanedTransactions(self._aborted)
            rules = BatchRules(
                transactions, task.active_producers, now_ms=task.now_ms, round_end=task.first_uncleanable_offset
            )
            groups = []
            for members in self._groups(sources):
                group = self._clean_group(members, rules, transactions)
                groups.append(group)
                self._tell(group)
            stats = CleaningStats(
                map_bytes_read=self._map_bytes_read,
                map_entries=self._map.entries,
                map_slots=self._buffer_slots,
                bytes_read=self._bytes_read,
                bytes_written=self._bytes_written,
                records_read=self._records_read,
                records_written=self._records_written,
                invalid_records=self._invalid_records,
                map_ns=map_ns,
                total_ns=self._clock.monotonic_ns() - self._started_ns,
            )
        return CleaningResult(task.tp, task.cut_count, tuple(groups), end_offset, stats)

    def _tell(self, finished: CleanedGroup | None = None) -> None:
        self._report(
            Progress(self._map_bytes_read + self._bytes_read, self._bytes_to_read, self._bytes_written, finished)
        )

    def _path(self, base_offset: int, kind: str) -> str:
        return os.path.join(self._task.directory, segment_file(base_offset, kind))

    def _open(self, source: SourceSegment, on_read: Callable[[int], None]) -> SourceLog:
        return SourceLog(
            self._fs,
            self._task.directory,
            source,
            end_offset=self._end_offsets[source.base_offset],
            window_bytes=self._task.io_buffer_bytes,
            on_read=on_read,
        )

    def _aborted_transactions(self) -> Iterator[AbortedTxn]:
        for base_offset, size in self._task.txn_indexes:
            index = TxnIndex(self._fs, self._path(base_offset, TXN_INDEX_SUFFIX), base_offset)
            index.load(size)
            with closing(index):
                yield from index.entries()

    # --- 1. the offset map ---

    def _fill_map(self) -> None:
        task = self._task
        max_entries = int(self._map.slots * task.load_factor)
        if max_entries < 1:
            raise Uncleanable(f"{task.dedupe_buffer_bytes} bytes for the offset map do not hold one key")
        start = task.first_dirty_offset
        transactions = CleanedTransactions(txn for txn in self._aborted if txn.last_offset >= start)
        dirty = [source for source in task.sources if self._end_offsets[source.base_offset] > start]
        self._bytes_to_read = sum(source.log_bytes for source in (*dirty, *task.sources))  # map and copy
        for source in dirty:
            position = self._position_of(start, source) if source.base_offset < start else 0
            self._bytes_to_read -= position
            if self._map_segment(source, position, max_entries, transactions):
                return
            # Offsets that are missing at the end of the segment were read too.
            self._map.latest_offset = self._end_offsets[source.base_offset] - 1

    def _position_of(self, offset: int, source: SourceSegment) -> int:
        """Return where to begin reading for `offset`; an index that is of no use only makes the way longer."""
        size = self._index_size(source.base_offset, INDEX_SUFFIX)
        if not size:
            return 0
        index = OffsetIndex(self._fs, self._path(source.base_offset, INDEX_SUFFIX), source.base_offset, size)
        with closing(index.file):
            try:
                index.load(size)
                position = index.lookup(offset)
            except CorruptIndex:
                return 0
        return position if position < source.log_bytes else 0

    def _map_segment(
        self, source: SourceSegment, position: int, max_entries: int, transactions: CleanedTransactions
    ) -> bool:
        """Put the keys of one segment into the map; tell whether it was full before the end."""
        offset_map, start = self._map, self._task.first_dirty_offset
        with closing(self._open(source, self._note_map_read)) as log:
            for window, at, end, header in log.batches(position):
                last_offset = header.last_offset
                if header.magic >= MAGIC_V2 and header.attributes & CONTROL_BIT:
                    transactions.is_marker_idle(header, self._control_type(header, window, at, end))
                elif not transactions.is_aborted(header) and last_offset >= start:
                    keys = self._keys(header, window, at, end, start)
                    if offset_map.put_all(keys, max_entries):
                        return True
                if last_offset >= start:
                    offset_map.latest_offset = last_offset
        return False

    def _keys(self, header: BatchHeader, window: bytes, at: int, end: int, start: int) -> list[tuple[int, bytes]]:
        """Return (offset, key) of the records from `start` on that have a key."""
        if header.magic < MAGIC_V2:
            return [(n, key) for n, key in legacy_keys(window[at:end]) if key is not None and n >= start]
        base_offset = header.base_offset
        records = self._records(header, window, at, end)[1]
        least_delta = start - base_offset
        return [(base_offset + one[4], one[5]) for one in records if one[5] is not None and one[4] >= least_delta]

    def _note_map_read(self, size: int) -> None:
        self._map_bytes_read += size
        self._tell()

    # --- 2. groups ---

    def _groups(self, sources: list[SourceSegment]) -> list[list[SourceSegment]]:
        task = self._task
        sizes = [
            SegmentSizes(
                source,
                self._index_size(source.base_offset, INDEX_SUFFIX),
                self._index_size(source.base_offset, TIME_INDEX_SUFFIX),
            )
            for source in sources
        ]
        return group_segments(
            sizes,
            segment_bytes=task.segment_bytes,
            segment_index_bytes=task.segment_index_bytes,
            end_offset=self._end_offsets[sources[-1].base_offset],
        )

    def _index_size(self, base_offset: int, kind: str) -> int:
        path = self._path(base_offset, kind)
        return self._fs.file_size(path) if self._fs.exists(path) else 0

    # --- 3. the new segments ---

    def _clean_group(
        self, members: list[SourceSegment], rules: BatchRules, transactions: CleanedTransactions
    ) -> CleanedGroup:
        task = self._task
        mtime_ms = self._fs.mtime_ms(self._path(members[-1].base_offset, LOG_SUFFIX))
        outputs = [CleanedOutput(self._fs, task, members[0].base_offset)]
        try:
            for source in members:
                keeps_legacy = self._fs.mtime_ms(self._path(source.base_offset, LOG_SUFFIX)) > self._legacy_horizon_ms
                self._clean_segment(source, rules, transactions, outputs, keeps_legacy)
            segments = tuple(output.finish(mtime_ms) for output in outputs)
        except BaseException:
            for output in outputs:
                output.discard()
            raise
        self._fs.sync_dir(task.directory)
        return CleanedGroup(tuple(members), segments)

    def _find_legacy_horizon_ms(self) -> int:
        """Return the time at which a segment must have been written for tombstones without a horizon to stay."""
        clean = [source for source in self._task.sources if source.base_offset < self._task.first_dirty_offset]
        if not clean:
            return 0
        return self._fs.mtime_ms(self._path(clean[-1].base_offset, LOG_SUFFIX)) - self._task.delete_retention_ms

    def _clean_segment(
        self,
        source: SourceSegment,
        rules: BatchRules,
        transactions: CleanedTransactions,
        outputs: list[CleanedOutput],
        keeps_legacy_tombstones: bool,
    ) -> None:
        with closing(self._open(source, self._note_read)) as log:
            for window, at, end, header in log.batches():
                is_control = header.magic >= MAGIC_V2 and header.attributes & CONTROL_BIT
                control_type = self._control_type(header, window, at, end) if is_control else None
                verdict = rules.judge(header, control_type, keeps_legacy_tombstones=keeps_legacy_tombstones)
                self._clean_batch(header, window, at, end, verdict, outputs)
                if transactions.retained:
                    for txn in transactions.retained:
                        outputs[-1].add_aborted(txn)
                    transactions.retained.clear()

    def _clean_batch(
        self,
        header: BatchHeader,
        window: bytes,
        at: int,
        end: int,
        verdict: BatchVerdict,
        outputs: list[CleanedOutput],
    ) -> None:
        """Write what stays of one batch."""
        self._records_read += header.record_count
        new: bytes | bytearray | None
        if verdict.fate is Fate.DROP_ALL or not header.record_count:
            new = None
        elif header.magic < MAGIC_V2:
            new = filter_legacy(
                window[at:end], self._is_newest, keeps_tombstones=verdict.keeps_tombstones, levels=self._levels
            )
        else:
            new = self._filter(header, window, at, end, verdict)
        if new is None:
            if not verdict.stays_empty:
                return
            new = empty_batch(header)
        output = outputs[-1]
        size = end - at if new is UNCHANGED else len(new)
        if not output.has_room_for(size, header.last_offset):
            output = CleanedOutput(self._fs, self._task, output.base_of_next(header.last_offset))
            outputs.append(output)
        if new is UNCHANGED:
            output.copy(window, at, end, last_offset=header.last_offset, max_timestamp=header.max_timestamp)
        else:
            written = parse_any_header(new, 0)
            output.add(new, last_offset=written.last_offset, max_timestamp=written.max_timestamp)
        self._bytes_written += size

    def _filter(
        self, header: BatchHeader, window: bytes, at: int, end: int, verdict: BatchVerdict
    ) -> bytes | bytearray | None:
        """Return the batch with the records that stay: UNCHANGED, rewritten, or None when no record stays."""
        section, records = self._records(header, window, at, end)
        kept: list[KeyedRecord] = []
        if verdict.fate is Fate.KEEP_ALL:
            kept = records
        else:
            offset_map, base_offset = self._map, header.base_offset
            latest, keeps_tombstones = offset_map.latest_offset, verdict.keeps_tombstones
            for record in records:
                offset, key = base_offset + record[4], record[5]
                if offset > latest:
                    kept.append(record)
                elif key is None:
                    self._invalid_records += 1
                elif offset >= offset_map.get(key) and (record[6] or keeps_tombstones):
                    kept.append(record)
        if not kept:
            return None
        self._records_written += len(kept)
        has_horizon = header.attributes & DELETE_HORIZON_BIT
        needs_horizon = not has_horizon and (verdict.needs_horizon or not all([record[6] for record in kept]))
        if len(kept) == len(records) and not needs_horizon:
            return UNCHANGED
        codec = header.attributes & CODEC_MASK
        return rebuilt_batch(
            header,
            section,
            kept,
            new_horizon_ms=self._task.now_ms + self._task.delete_retention_ms if needs_horizon else None,
            level=self._levels.get(codec),
        )

    def _is_newest(self, key: bytes | None, offset: int) -> bool:
        if offset > self._map.latest_offset:
            return True
        if key is None:
            self._invalid_records += 1
            return False
        return offset >= self._map.get(key)

    def _note_read(self, size: int) -> None:
        self._bytes_read += size
        self._tell()

    # --- records ---

    def _records(self, header: BatchHeader, window: bytes, at: int, end: int) -> tuple[bytes, list[KeyedRecord]]:
        """Return (section, its records); the records' places are positions in the section."""
        codec = header.attributes & CODEC_MASK
        if not codec:
            return window, keyed_records(window, header.record_count, at + HEADER_SIZE, end)
        section = bytes(decompress(codec, memoryview(window)[at + HEADER_SIZE : end], max_size=INT_MAX))
        records = keyed_records(section, header.record_count, 0, len(section))
        limit = self._task.max_decompressed_message_bytes
        if limit < NO_DECOMPRESSED_LIMIT and len(section) > limit:
            largest = largest_body(section, header.record_count)
            if largest > limit:
                raise Uncleanable(f"a compressed record of {largest} bytes exceeds the configured limit of {limit}")
        return section, records

    def _control_type(self, header: BatchHeader, window: bytes, at: int, end: int) -> int | None:
        if not header.record_count:
            return None
        return control_type_of(self._records(header, window, at, end)[1][0][5])
