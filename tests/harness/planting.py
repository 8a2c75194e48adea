"""Faults to be planted into a copy of the directories that `tests.harness.filled` makes: one each, told by its kind.

A fault changes what one file says and leaves checksums right where it is not the checksum that it is about.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import crc32c

from tests.harness import batches

OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY, PRODUCER_ENTRY = 8, 12, 34, 46
SNAPSHOT_HEAD = 10
EPOCH_AT, MAGIC_AT, CRC_AT, CHECKED_FROM = 12, 16, 17, 21
DELTA_AT, MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT, SEQUENCE_AT, COUNT_AT = 23, 35, 51, 53, 57


class Fault(NamedTuple):
    """What it is called, what verify has to call it, and what plants it and returns the file that is at fault."""

    name: str
    kind: str
    plant: Callable[[Path], Path]


FAULTS: list[Fault] = []


def fault(kind: str) -> Callable[[Callable[[Path], Path]], Callable[[Path], Path]]:
    """Take a function into the table."""

    def enter(plant: Callable[[Path], Path]) -> Callable[[Path], Path]:
        FAULTS.append(Fault(plant.__name__, kind, plant))
        return plant

    return enter


# --- where things are


def folder(root: Path, name: str) -> Path:
    """Find the folder of a partition, in whichever directory it is."""
    [found] = root.glob(f"disk-*/{name}")
    return found


def files(root: Path, name: str, suffix: str) -> list[Path]:
    """Find the files of a partition that have something in them."""
    return [path for path in sorted(folder(root, name).glob(f"*{suffix}")) if path.stat().st_size]


def starts(content: bytes) -> list[int]:
    """Find where batches begin."""
    found, position = [], 0
    while position < len(content):
        found.append(position)
        position += 12 + struct.unpack_from(">i", content, position + 8)[0]
    return found


def change(path: Path, edit: Callable[[bytearray], None]) -> Path:
    """Change the content of a file."""
    content = bytearray(path.read_bytes())
    edit(content)
    path.write_bytes(content)
    return path


def change_batch(path: Path, number: int, at: int, data: bytes) -> Path:
    """Overwrite something in a batch and make its checksum right."""

    def edit(content: bytearray) -> None:
        places = [*starts(bytes(content)), len(content)]
        start, end = places[number], places[places.index(places[number]) + 1]
        content[start + at : start + at + len(data)] = data
        struct.pack_into(">I", content, start + CRC_AT, crc32c.crc32c(bytes(content[start + CHECKED_FROM : end])))

    return change(path, edit)


def number_of(path: Path, wanted: Callable[[batches.Batch], bool]) -> int:
    """Find the first batch of a kind."""
    return next(number for number, batch in enumerate(batches.parse(path.read_bytes())) if wanted(batch))


# --- batches


@fault("batch-crc")
def a_bit_flips_in_a_record(root: Path) -> Path:
    path = files(root, "codecs-0", ".log")[1]
    return change(path, lambda content: content.__setitem__(starts(bytes(content))[2] + 70, content[70] ^ 4))


@fault("batch-crc")
def a_bit_flips_in_a_compacted_log(root: Path) -> Path:
    path = files(root, "compacted-0", ".log")[0]
    return change(path, lambda content: content.__setitem__(-1, content[-1] ^ 1))


@fault("batch-torn")
def the_end_of_a_log_is_cut_off(root: Path) -> Path:
    path = files(root, "codecs-0", ".log")[-1]
    return change(path, lambda content: content.__delitem__(slice(-9, None)))


@fault("batch-structure")
def what_follows_the_log_is_none_of_it(root: Path) -> Path:
    return change(files(root, "spread-1", ".log")[0], lambda content: content.extend(b"\xff" * 90))


@fault("unused-space")
def zeros_follow_the_log(root: Path) -> Path:
    return change(files(root, "preallocated-0", ".log")[-1], lambda content: content.extend(bytes(4096)))


@fault("batch-offsets")
def a_batch_is_missing(root: Path) -> Path:
    def edit(content: bytearray) -> None:
        places = starts(bytes(content))
        del content[places[3] : places[4]]

    return change(files(root, "spread-0", ".log")[0], edit)


@fault("batch-offsets")
def a_batch_is_there_twice(root: Path) -> Path:
    def edit(content: bytearray) -> None:
        places = starts(bytes(content))
        content[places[4] : places[4]] = content[places[3] : places[4]]

    return change(files(root, "spread-1", ".log")[0], edit)


@fault("batch-offsets")
def a_batch_has_a_high_offset(root: Path) -> Path:
    path = files(root, "spread-2", ".log")[0]
    return change(path, lambda content: struct.pack_into(">q", content, starts(bytes(content))[4], 1 << 20))


@fault("batch-offsets")
def a_batch_has_a_low_offset(root: Path) -> Path:
    path = files(root, "codecs-0", ".log")[2]
    return change(path, lambda content: struct.pack_into(">q", content, starts(bytes(content))[2], 3))


@fault("batch-epoch")
def a_batch_has_another_epoch(root: Path) -> Path:
    path = files(root, "codecs-0", ".log")[0]
    return change(path, lambda content: struct.pack_into(">i", content, starts(bytes(content))[2] + EPOCH_AT, 7))


@fault("records-count")
def a_batch_has_more_records_than_offsets(root: Path) -> Path:
    return change_batch(files(root, "spread-0", ".log")[0], 2, COUNT_AT, struct.pack(">i", 6))


@fault("records")
def a_record_lacks_its_end(root: Path) -> Path:
    return change_batch(files(root, "spread-0", ".log")[0], 2, batches.HEADER_SIZE, b"\x7e")


@fault("records")
def a_compressed_payload_is_damaged(root: Path) -> Path:
    path = files(root, "codecs-0", ".log")[0]
    return change_batch(path, number_of(path, lambda batch: batch.codec == batches.GZIP), batches.HEADER_SIZE, b"\0\0")


@fault("records")
def a_codec_is_unknown(root: Path) -> Path:
    return change_batch(files(root, "spread-3", ".log")[0], 1, CHECKED_FROM, struct.pack(">h", 6))


@fault("records")
def a_record_has_the_offset_of_another(root: Path) -> Path:
    path = files(root, "spread-0", ".log")[0]
    # length, attributes, timestamp delta, offset delta
    return change_batch(path, 2, batches.HEADER_SIZE + 3, b"\x04")


@fault("record-times")
def a_record_is_newer_than_its_batch(root: Path) -> Path:
    return change_batch(files(root, "spread-0", ".log")[0], 2, MAX_TIMESTAMP_AT, struct.pack(">q", 1000))


@fault("control")
def a_marker_is_of_an_unknown_kind(root: Path) -> Path:
    path = files(root, "transactional-0", ".log")[0]
    number = number_of(path, lambda batch: bool(batch.attributes & batches.CONTROL) and batch.base_offset > 4)
    # length, attributes, timestamp delta, offset delta, key length, version of the key
    return change_batch(path, number, batches.HEADER_SIZE + 7, struct.pack(">h", 3))


@fault("producer-sequence")
def a_producer_repeats_itself(root: Path) -> Path:
    return change_batch(files(root, "spread-0", ".log")[0], 1, SEQUENCE_AT, struct.pack(">i", 1))


@fault("producer-epoch")
def a_producer_goes_back_to_an_old_epoch(root: Path) -> Path:
    return change_batch(files(root, "spread-0", ".log")[0], 0, PRODUCER_EPOCH_AT, struct.pack(">h", 5))


def _lengthen(path: Path, text: bytes, length_at: int) -> Path:
    """Have a length in front of a text in a record point behind its end."""
    number = number_of(path, lambda batch: text in batch.raw)
    place = batches.parse(path.read_bytes())[number].raw.index(text)
    return change_batch(path, number, place - length_at, b"\x7f")


def _with(root: Path, topic: str, text: bytes) -> Path:
    """Find the log of a topic that has a text in it."""
    return next(path for number in (0, 1) for path in files(root, f"{topic}-{number}", ".log")
                if text in path.read_bytes())  # fmt: skip


@fault("record-decode")
def an_offset_commit_cannot_be_read(root: Path) -> Path:
    return _lengthen(_with(root, "__consumer_offsets", b"seventeen"), b"seventeen", 1)


@fault("record-decode")
def a_transactional_id_cannot_be_read(root: Path) -> Path:
    return _lengthen(_with(root, "__transaction_state", b"\0\3one"), b"\0\3one", 0)


# --- segments


@fault("segment-gap")
def a_segment_is_missing(root: Path) -> Path:
    gone, following = files(root, "codecs-0", ".log")[2:4]
    for path in folder(root, "codecs-0").glob(f"{gone.stem}.*"):
        path.unlink()
    return following


@fault("segment-overlap")
def a_segment_is_there_under_another_name(root: Path) -> Path:
    path = files(root, "codecs-0", ".log")[2]
    for suffix in (".log", ".index", ".timeindex"):
        found = path.with_suffix(suffix)
        found.rename(found.with_stem(f"{int(path.stem) - 5:020}"))
    return path.with_stem(f"{int(path.stem) - 5:020}")


# --- indexes


@fault("index-size")
def an_index_is_torn(root: Path) -> Path:
    return change(files(root, "codecs-0", ".index")[0], lambda content: content.__delitem__(slice(-3, None)))


@fault("index-size")
def an_index_was_not_trimmed(root: Path) -> Path:
    return change(files(root, "codecs-0", ".index")[-1], lambda content: content.extend(bytes(800)))


@fault("index-order")
def entries_of_an_index_are_swapped(root: Path) -> Path:
    def edit(content: bytearray) -> None:
        content[:] = content[OFFSET_ENTRY : 2 * OFFSET_ENTRY] + content[:OFFSET_ENTRY] + content[2 * OFFSET_ENTRY :]

    return change(files(root, "codecs-0", ".index")[0], edit)


@fault("index-position")
def an_index_leads_into_a_batch(root: Path) -> Path:
    path = files(root, "codecs-0", ".index")[1]
    return change(path, lambda content: content.__setitem__(7, content[7] ^ 1))


@fault("index-offset")
def an_index_names_the_wrong_offset(root: Path) -> Path:
    path = files(root, "codecs-0", ".index")[1]
    return change(path, lambda content: struct.pack_into(">i", content, 0, struct.unpack_from(">i", content)[0] + 1))


@fault("index-missing")
def an_index_is_missing(root: Path) -> Path:
    path = files(root, "codecs-0", ".index")[1]
    path.unlink()
    return path


@fault("timeindex-size")
def zeros_follow_a_time_index(root: Path) -> Path:
    return change(files(root, "codecs-0", ".timeindex")[0], lambda content: content.extend(bytes(24)))


@fault("timeindex-order")
def entries_of_a_time_index_are_swapped(root: Path) -> Path:
    def edit(content: bytearray) -> None:
        content[:] = content[TIME_ENTRY : 2 * TIME_ENTRY] + content[:TIME_ENTRY] + content[2 * TIME_ENTRY :]

    return change(files(root, "codecs-0", ".timeindex")[0], edit)


@fault("timeindex-entry")
def a_time_index_names_the_wrong_time(root: Path) -> Path:
    path = files(root, "codecs-0", ".timeindex")[1]
    return change(path, lambda content: struct.pack_into(">q", content, 0, struct.unpack_from(">q", content)[0] - 1))


@fault("timeindex-incomplete")
def a_time_index_lacks_its_last_entry(root: Path) -> Path:
    return change(files(root, "codecs-0", ".timeindex")[0], lambda content: content.__delitem__(slice(-12, None)))


@fault("txnindex")
def an_aborted_transaction_is_not_listed(root: Path) -> Path:
    return change(files(root, "transactional-0", ".txnindex")[0], lambda content: content.__delitem__(slice(0, 34)))


@fault("txnindex")
def an_aborted_transaction_begins_elsewhere(root: Path) -> Path:
    path = files(root, "transactional-0", ".txnindex")[0]
    return change(path, lambda content: struct.pack_into(">q", content, 10, 1))


@fault("txnindex")
def an_index_of_transactions_is_torn(root: Path) -> Path:
    return change(files(root, "transactional-0", ".txnindex")[0], lambda content: content.__delitem__(-1))


# --- beside the segments


@fault("snapshot")
def a_producer_snapshot_is_damaged(root: Path) -> Path:
    path = files(root, "transactional-0", ".snapshot")[-1]
    return change(path, lambda content: content.__setitem__(20, content[20] ^ 2))


@fault("snapshot-state")
def a_producer_snapshot_names_another_sequence(root: Path) -> Path:
    def edit(content: bytearray) -> None:
        struct.pack_into(">i", content, SNAPSHOT_HEAD + 10, 77)
        struct.pack_into(">I", content, 2, crc32c.crc32c(bytes(content[6:])))

    [path] = [path for path in files(root, "spread-0", ".snapshot") if path.stat().st_size > SNAPSHOT_HEAD]
    return change(path, edit)


@fault("leader-epochs")
def the_epochs_of_a_log_are_no_numbers(root: Path) -> Path:
    path = folder(root, "codecs-0") / "leader-epoch-checkpoint"
    path.write_text("0\n1\nzero 0\n")
    return path


@fault("leader-epochs")
def an_epoch_begins_behind_the_log(root: Path) -> Path:
    path = folder(root, "codecs-0") / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n3 99999\n")
    return path


@fault("partition-metadata")
def a_log_is_of_another_topic(root: Path) -> Path:
    path = folder(root, "codecs-0") / "partition.metadata"
    shutil.copy(folder(root, "append-time-0") / "partition.metadata", path)
    return path


@fault("partition-metadata")
def the_topic_of_a_log_is_illegible(root: Path) -> Path:
    path = folder(root, "codecs-0") / "partition.metadata"
    path.write_text("version: 0\ntopic_id: ?\n")
    return path


# --- directories


def _checkpoint(root: Path, name: str, log: str, offset: int) -> Path:
    path = folder(root, log).parent / name
    topic, _, partition = log.rpartition("-")
    rows = [row for row in path.read_text().splitlines()[2:] if not row.startswith(f"{topic} {partition} ")]
    rows.append(f"{topic} {partition} {offset}")
    path.write_text("\n".join(("0", str(len(rows)), *rows, "")))
    return path


@fault("checkpoint-offset")
def more_is_durable_than_there_is(root: Path) -> Path:
    return _checkpoint(root, "recovery-point-offset-checkpoint", "codecs-0", 9999)


@fault("checkpoint-offset")
def the_high_watermark_is_above_the_log(root: Path) -> Path:
    return _checkpoint(root, "replication-offset-checkpoint", "spread-0", 9999)


@fault("checkpoint-offset")
def a_log_begins_behind_its_end(root: Path) -> Path:
    return _checkpoint(root, "log-start-offset-checkpoint", "shortened-0", 9999)


@fault("checkpoint-offset")
def more_is_compacted_than_there_is(root: Path) -> Path:
    return _checkpoint(root, "cleaner-offset-checkpoint", "compacted-0", 9999)


@fault("checkpoint")
def a_checkpoint_is_malformed(root: Path) -> Path:
    path = root / "disk-1" / "replication-offset-checkpoint"
    path.write_text(path.read_text() + "one more\n")
    return path


@fault("identity")
def directories_are_of_different_clusters(root: Path) -> Path:
    path = root / "disk-1" / "meta.properties"
    rows = path.read_text().splitlines()
    path.write_text("\n".join("cluster.id=another" if row.startswith("cluster.id") else row for row in rows))
    return path


@fault("identity")
def a_directory_has_no_identity(root: Path) -> Path:
    path = root / "disk-1" / "meta.properties"
    path.unlink()
    return path


@fault("duplicate-log")
def a_log_is_in_both_directories(root: Path) -> Path:
    source = folder(root, "codecs-0")
    here, there = sorted([source.parent, *(root / name for name in ("disk-0", "disk-1") if source.parent.name != name)])
    shutil.copytree(source, (there if source.parent == here else here) / "codecs-0")
    return there / "codecs-0"


@fault("missing-log")
def a_log_is_gone(root: Path) -> Path:
    path = folder(root, "spread-2")
    shutil.rmtree(path)
    return path.parent


@fault("clean-shutdown")
def the_marker_of_a_clean_stop_is_illegible(root: Path) -> Path:
    path = root / "disk-0" / ".kafka_cleanshutdown"
    path.write_text("{")
    return path


# --- metadata


@fault("quorum-state")
def the_state_of_the_quorum_is_illegible(root: Path) -> Path:
    path = folder(root, "__cluster_metadata-0") / "quorum-state"
    path.write_text("{}")
    return path


@fault("metadata-snapshot")
def a_metadata_snapshot_lacks_its_footer(root: Path) -> Path:
    path = files(root, "__cluster_metadata-0", ".checkpoint")[-1]
    return change(path, lambda content: content.__delitem__(slice(starts(bytes(content))[-1], None)))


@fault("batch-structure")
def a_metadata_snapshot_is_cut(root: Path) -> Path:
    path = files(root, "__cluster_metadata-0", ".checkpoint")[-1]
    return change(path, lambda content: content.__delitem__(slice(-5, None)))


@fault("record-decode")
def a_metadata_record_cannot_be_read(root: Path) -> Path:
    return _lengthen(files(root, "__cluster_metadata-0", ".log")[-1], b"append-time", 1)
