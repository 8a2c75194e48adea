"""What goes into a cleaning and what comes out of it: plain values that travel to a child process and back."""

from typing import NamedTuple

from storage.types import TopicPartition


class SourceSegment(NamedTuple):
    """A sealed segment that may be read by its base offset and has `log_bytes` of batches."""

    base_offset: int
    log_bytes: int


class TxnIndexSource(NamedTuple):
    """A transaction index with entries; the segment need not be one of the sources, nor be sealed."""

    base_offset: int
    index_bytes: int


class LastRecord(NamedTuple):
    """What must stay of an active producer: the batch that ends at last_data_offset, or else a marker of its epoch."""

    producer_id: int
    producer_epoch: int
    last_data_offset: int  # -1 when no data of the current epoch is known


class CleaningTask(NamedTuple):
    """Everything one pass over one log needs, taken at one moment on the owner's side."""

    directory: str
    tp: TopicPartition
    cut_count: int  # of the log when the task was made; another one at the end means that offsets were reused
    sources: tuple[SourceSegment, ...]  # every sealed segment below first_uncleanable_offset, ascending
    txn_indexes: tuple[TxnIndexSource, ...]
    active_producers: tuple[LastRecord, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    max_decompressed_message_bytes: int
    compression_levels: tuple[tuple[int, int], ...]  # (codec id, level) of the codecs that have levels
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int


class CleanedSegment(NamedTuple):
    """One finished `.cleaned` segment: name and sizes of its files."""

    base_offset: int
    log_bytes: int
    index_bytes: int
    time_index_bytes: int
    txn_index_bytes: int


class CleanedGroup(NamedTuple):
    """Neighbouring sources and what takes their place, all of it durable under the suffix `.cleaned`."""

    sources: tuple[SourceSegment, ...]
    segments: tuple[CleanedSegment, ...]


class Progress(NamedTuple):
    """How far a pass has come; `finished` is a group that may be installed while the pass goes on."""

    bytes_read: int  # for the map and for copying, as in bytes_to_read
    bytes_to_read: int  # less once it turns out that the map does not reach the end
    bytes_written: int
    finished: CleanedGroup | None = None


class CleaningStats(NamedTuple):
    """Counts of one pass."""

    map_bytes_read: int
    map_entries: int
    map_slots: int  # of the whole buffer; the table of a small pass is smaller
    bytes_read: int
    bytes_written: int
    records_read: int
    records_written: int
    invalid_records: int  # without a key
    map_ns: int
    total_ns: int


class CleaningResult(NamedTuple):
    """A finished pass: once every group is installed, the log is clean below end_offset."""

    tp: TopicPartition
    cut_count: int
    groups: tuple[CleanedGroup, ...]
    end_offset: int
    stats: CleaningStats
