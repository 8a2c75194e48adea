"""One log: the directory of a partition, from its oldest segment to its newest."""

from __future__ import annotations

import os.path
from collections import Counter
from collections.abc import Callable

from broker.offline.verify.context import Content, LogContext, LogResult
from broker.offline.verify.epochs import EpochsCheck
from broker.offline.verify.findings import Findings
from broker.offline.verify.indexes import IndexSource, OffsetIndexCheck, TimeIndexCheck
from broker.offline.verify.producers import ProducersCheck
from broker.offline.verify.segment import Gap, SegmentWalk, Walk
from protocol.uuids import ZERO_UUID, format_uuid
from storage.checkpoints.partition_metadata import read_partition_metadata
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint
from storage.segment.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_segment_file,
)


class LogCheck:
    """Checks one log. `messages` is what the metadata log says, if it is one."""

    def __init__(self, fs: FileSystem, context: LogContext, findings: Findings, advance: Callable[[int], None]) -> None:
        self._fs = fs
        self._context = context
        self._findings = findings
        self._advance = advance
        self._files: dict[str, set[int]] = {suffix: set() for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)}
        self.messages: list[tuple[int, object]] = []

    def run(self) -> LogResult:
        """Read the log. What cannot be read is a fault, never an error."""
        try:
            return self._run()
        except OSError as error:
            self._findings.unreadable(self._context.directory, error)
            return LogResult(self._context.tp, self._context.directory, is_damaged=True)

    def _run(self) -> LogResult:
        context, findings = self._context, self._findings
        self._list()
        self._check_topic_id()
        bases = sorted(self._files[LOG_SUFFIX])
        self._check_strays(bases)
        snapshots = sorted(self._files[SNAPSHOT_SUFFIX])
        producers = ProducersCheck(self._fs, context, findings, snapshots)
        walk = Walk(self._fs, context, findings, producers, EpochsCheck(self._fs, context, findings), self._advance)
        walk.keeps_messages = context.content is Content.METADATA
        if bases:
            walk.next_offset = bases[0]
            producers.begin(bases[0])
        for place, base_offset in enumerate(bases, 1):
            self._check_segment(walk, base_offset, bases[place] if place < len(bases) else None)
        producers.at(walk.next_offset)
        if not walk.is_damaged:
            producers.finish(walk.next_offset)
            walk.epochs.finish(walk.next_offset)
        self._tell_gaps(walk)
        self.messages = walk.messages
        return LogResult(
            context.tp,
            context.directory,
            bases[0] if bases else 0,
            walk.next_offset,
            walk.is_damaged,
            len(bases),
            walk.batches,
            walk.records,
            walk.size_bytes,
        )

    def _list(self) -> None:
        leftovers: Counter[str] = Counter()
        for entry in self._fs.list_dir(self._context.directory):
            parsed = parse_segment_file(entry.name)
            if parsed is None or not entry.is_file:
                continue
            if parsed.marker:
                leftovers[parsed.marker] += 1
            else:
                self._files[parsed.kind].add(parsed.base_offset)
        for marker, count in leftovers.items():
            self._findings.note("leftover", self._context.directory, f"{count} files are left as {marker}")

    def _path(self, base_offset: int, suffix: str) -> str:
        return os.path.join(self._context.directory, f"{base_offset:020d}{suffix}")

    def _check_topic_id(self) -> None:
        path = os.path.join(self._context.directory, PARTITION_METADATA)
        try:
            found = read_partition_metadata(self._fs, self._context.directory)
        except CorruptCheckpoint as error:
            self._findings.fault("partition-metadata", path, error.reason)
            return
        wanted = self._context.topic_id
        if found == ZERO_UUID:
            self._findings.fault("partition-metadata", path, "names no topic id")
        elif found is not None and wanted is not None and found != wanted:
            what = f"topic id {format_uuid(found)}, the cluster metadata has {format_uuid(wanted)}"
            self._findings.fault("partition-metadata", path, what)

    def _check_strays(self, bases: list[int]) -> None:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            for base_offset in sorted(self._files[suffix].difference(bases)):
                path = self._path(base_offset, suffix)
                is_excused = not self._context.is_clean
                self._findings.fault("segment-missing", path, "there is no .log of it", is_excused=is_excused)

    def _check_segment(self, walk: Walk, base_offset: int, next_base: int | None) -> None:
        path = self._path(base_offset, LOG_SUFFIX)
        is_overlapping = base_offset < walk.next_offset
        if is_overlapping:
            what = f"begins at {base_offset}, the segment before ends at {walk.next_offset}"
            is_excused = self._context.is_excused(base_offset)
            self._findings.fault("segment-overlap", path, what, is_excused=is_excused)
            walk.is_damaged = True
            walk.producers.is_trusted = False
        elif base_offset > walk.next_offset and not walk.is_damaged and walk.batches:
            walk.gaps.append(Gap("segment-gap", path, 0, walk.next_offset, base_offset))
        walk.next_offset = base_offset
        walk.producers.at(base_offset)
        offsets, times = (None, None) if is_overlapping else self._indexes(base_offset, next_base)
        SegmentWalk(walk, path, base_offset, offsets, times).run()
        txn_path = self._path(base_offset, TXN_INDEX_SUFFIX)
        data = self._fs.read_file(txn_path) if base_offset in self._files[TXN_INDEX_SUFFIX] else None
        is_excused = self._context.is_rebuilt(next_base)
        walk.producers.end_segment(txn_path, base_offset, walk.next_offset, data, is_excused=is_excused)

    def _indexes(
        self, base_offset: int, next_base: int | None
    ) -> tuple[OffsetIndexCheck | None, TimeIndexCheck | None]:
        """Read the indexes of a segment; None for one that is missing."""
        context = self._context
        is_excused = context.is_rebuilt(next_base)
        may_have_room = not context.is_clean and next_base is None
        found: list[IndexSource | None] = []
        for suffix, kind in ((INDEX_SUFFIX, "index"), (TIME_INDEX_SUFFIX, "timeindex")):
            path = self._path(base_offset, suffix)
            if base_offset in self._files[suffix]:
                data = self._fs.read_file(path)
                found.append(IndexSource(path, base_offset, data, self._findings, may_have_room, is_excused))
            else:
                found.append(None)
                self._findings.fault(f"{kind}-missing", path, "is missing", is_excused=is_excused)
        index, timeindex = found
        return (
            None if index is None else OffsetIndexCheck(index),
            None if timeindex is None else TimeIndexCheck(timeindex),
        )

    def _tell_gaps(self, walk: Walk) -> None:
        if walk.was_compacted:
            return
        for gap in walk.gaps:
            what = f"offsets {gap.expected} to {gap.found - 1} are missing"
            # Segments below the log's start that were removed may be back after a crash, not all of them.
            is_excused = self._context.is_excused(gap.expected) or gap.found <= self._context.log_start
            self._findings.fault(gap.kind, gap.path, what, gap.position, is_excused=is_excused)
