"""Producer snapshots: the golden bytes, every kind of damage, and which files survive a load."""

import pytest

from storage.errors import CorruptSnapshot
from storage.producers.entry import ProducerEntry, batch_before
from storage.producers.snapshot import (
    decode_snapshot,
    delete_snapshots_before,
    encode_snapshot,
    list_snapshots,
    remove_stray_snapshots,
    snapshot_path,
    take_snapshot,
    truncate_and_load,
)
from storage.producers.state import ProducerStateManager
from storage.types import TopicPartition

GOLDEN = bytes.fromhex(
    "0001d03661110000000100000000000000070001000000000000000000000006000000010000018bcfe5680500000004ffffffffffffffff"
)
NOW = 1700000000005


def golden_entry() -> ProducerEntry:
    entry = ProducerEntry(7, 1, 4, 1700000000005)
    entry.batches.append(batch_before(0, 6, 1, 1700000000005))
    return entry


def manager() -> ProducerStateManager:
    return ProducerStateManager(TopicPartition("orders", 0))


class FolderFs:
    """Files of one folder in a dict: the calls that snapshots make."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = files or {}

    def list_dir(self, path):
        from storage.env.fs import DirEntry

        return [DirEntry(name.rsplit("/", 1)[1], False, True, len(data)) for name, data in sorted(self.files.items())]

    def read_file(self, path):
        return self.files[path]

    def write_file(self, path, data, *, sync=True):
        self.files[path] = data

    def unlink(self, path):
        self.files.pop(path, None)


def folder(*offsets: int, content: bytes = GOLDEN) -> FolderFs:
    return FolderFs({snapshot_path("/d", offset): content for offset in offsets})


def test_golden_vector_encodes_and_decodes():
    assert encode_snapshot([golden_entry()]) == GOLDEN
    (entry,) = decode_snapshot(GOLDEN)
    assert entry.batches[0].first_sequence == 0x7FFFFFFF
    assert entry.batches[0].first_offset == 5
    assert encode_snapshot([entry]) == GOLDEN


def test_an_entry_without_batches_keeps_epoch_and_transaction():
    entry = ProducerEntry(9, 3, 2, 55, current_txn_first_offset=11)
    (read,) = decode_snapshot(encode_snapshot([entry]))
    assert (read.producer_id, read.producer_epoch, read.coordinator_epoch, read.last_timestamp) == (9, 3, 2, 55)
    assert read.current_txn_first_offset == 11 and not read.batches
    assert (read.last_sequence, read.last_offset, read.last_offset_delta) == (-1, -1, 0)


@pytest.mark.parametrize("size", range(len(GOLDEN)))
def test_a_cut_snapshot_is_corrupt(size):
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(GOLDEN[:size])


@pytest.mark.parametrize("position", range(len(GOLDEN)))
def test_a_flipped_byte_is_corrupt(position):
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 0x40
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(damaged))


def test_loading_prefers_the_newest_within_the_log_and_deletes_the_rest():
    fs = folder(0, 3, 7, 12)
    state = manager()
    assert truncate_and_load(fs, "/d", state, log_start_offset=0, log_end_offset=10, now_ms=NOW) == 7
    assert list_snapshots(fs, "/d") == [3, 7]
    assert state.map_end_offset == state.last_snapshot_offset == 7
    assert list(state.producers) == [7]


def test_a_damaged_snapshot_is_deleted_and_the_older_one_used():
    fs = folder(3, 7)
    fs.files[snapshot_path("/d", 7)] = b""
    state = manager()
    assert truncate_and_load(fs, "/d", state, log_start_offset=0, log_end_offset=10, now_ms=NOW) == 3
    assert list_snapshots(fs, "/d") == [3]


def test_without_snapshots_replay_begins_at_the_log_start():
    state = manager()
    assert truncate_and_load(FolderFs(), "/d", state, log_start_offset=4, log_end_offset=10, now_ms=NOW) == 4
    assert state.is_empty and state.map_end_offset == 4


def test_expired_producers_are_not_loaded_unless_their_transaction_is_open():
    late = NOW + state_expiration()
    opened = golden_entry()
    opened.current_txn_first_offset = 5
    for entry, known in ((golden_entry(), []), (opened, [7])):
        state = manager()
        fs = folder(7, content=encode_snapshot([entry]))
        truncate_and_load(fs, "/d", state, log_start_offset=0, log_end_offset=7, now_ms=late)
        assert list(state.producers) == known
        assert state.first_unstable_offset == (5 if known else None)


def state_expiration() -> int:
    return manager().expiration_ms


def test_a_snapshot_is_taken_once_per_offset():
    fs = FolderFs()
    state = manager()
    state.load([golden_entry()], offset=7, now_ms=NOW)
    assert not take_snapshot(fs, "/d", state)
    state.map_end_offset = 9
    assert take_snapshot(fs, "/d", state) and not take_snapshot(fs, "/d", state)
    assert fs.files == {snapshot_path("/d", 9): GOLDEN}


@pytest.mark.parametrize(
    ("present", "bases", "left"),
    [
        ([0, 5, 8], [0, 5], [0, 5, 8]),
        ([2, 5, 8, 9], [0, 5], [5, 9]),
        ([2, 3], [0, 5], []),
        ([5], [5], [5]),
    ],
)
def test_stray_snapshots_go_but_the_one_of_a_clean_stop(present, bases, left):
    fs = folder(*present)
    remove_stray_snapshots(fs, "/d", bases)
    assert list_snapshots(fs, "/d") == left


def test_snapshots_below_the_first_segment_go():
    fs = folder(3, 7, 12)
    delete_snapshots_before(fs, "/d", 7)
    assert list_snapshots(fs, "/d") == [7, 12]
