"""The walk of recovery against a plain one, batch after batch, over all that may lie in a segment."""

import random

import pytest

from config.views import LogConfig
from protocol.records.batch import HEADER_SIZE, check_crc, parse_header, patch_offset_and_epoch
from protocol.records.builder import build_batch
from protocol.records.control import build_marker
from protocol.records.errors import RecordsError
from storage.log.transactions import replay_batch
from storage.producers.snapshot import encode_snapshot
from storage.producers.state import ProducerStateManager
from storage.segment import scan as scan_module
from storage.segment.scan import IndexEntries, scan
from storage.segment.segment import Segment
from storage.stats import LoadProgress
from tests.sim.logs import NOW, TP


def random_batches(chance: random.Random, count: int) -> bytes:
    """Batches of idempotent, transactional and plain producers, with markers, epochs, gaps and sizes mixed."""
    data, offset, epoch = bytearray(), 0, 0
    for _ in range(count):
        epoch += chance.random() < 0.02
        producer_id = chance.choice([-1, 1, 2, 3, 4, 5])
        fields = {}
        if producer_id >= 0:
            fields = {
                "producer_id": producer_id,
                "producer_epoch": chance.choice([0, 0, 0, 1]),
                "base_sequence": offset,
            }
            fields["is_transactional"] = producer_id > 2 or chance.random() < 0.1
        if producer_id > 2 and chance.random() < 0.2:
            batch = bytearray(
                build_marker(
                    is_abort=chance.random() < 0.5,
                    producer_id=producer_id,
                    producer_epoch=fields["producer_epoch"],
                    coordinator_epoch=0,
                    timestamp=NOW,
                )
            )
        else:
            values = [bytes(chance.choice([0, 5, 40, 3000])) for _ in range(chance.randint(1, 3))]
            timestamp = NOW + chance.randint(0, 1000)
            batch = bytearray(build_batch([(None, value, (), timestamp) for value in values], **fields))
        patch_offset_and_epoch(batch, 0, offset, epoch)
        offset = parse_header(batch).next_offset + (chance.random() < 0.05)
        data += batch
    return bytes(data)


def plain_walk(data: bytes):
    """What the scan must come to: valid bytes, end offset, epochs, producers, aborted transactions."""
    producers, epochs, aborted, position, end = ProducerStateManager(TP), [], [], 0, 0
    while position < len(data):
        try:
            header = parse_header(data, position)
        except RecordsError:
            break
        if not check_crc(data, position, header):
            break
        if not epochs or header.partition_leader_epoch > epochs[-1][0]:
            epochs.append((header.partition_leader_epoch, header.base_offset))
        completed = replay_batch(producers, header, data[position : position + header.size_bytes])
        if completed is not None and completed.is_aborted:
            aborted.append(completed)
        position += header.size_bytes
        end = header.next_offset
    return position, end, epochs, state_of(producers), aborted


def state_of(producers: ProducerStateManager):
    entries = producers.producers.values()
    return encode_snapshot(entries), [list(entry.batches) for entry in entries], producers.first_unstable_offset


def scanned(fs, directory, data: bytes):
    (directory / "00000000000000000000.log").write_bytes(data)
    segment = Segment(fs, str(directory), 0, LogConfig(), created_ms=0, jitter_ms=0, log_size=len(data))
    producers, epochs, aborted, progress = ProducerStateManager(TP), [], [], LoadProgress()

    def follow(header, batch):
        if not epochs or header.partition_leader_epoch > epochs[-1][0]:
            epochs.append((header.partition_leader_epoch, header.base_offset))
        completed = replay_batch(producers, header, batch)
        if completed is not None and completed.is_aborted:
            aborted.append(completed)

    entries = IndexEntries(segment.offset_index, segment.time_index, 500)
    found = scan(segment.log, entries, follow, progress, known_epoch=-1)
    entries.write()
    segment.release_files()
    return (found.valid_bytes, found.next_offset, epochs, state_of(producers), aborted), found, progress


@pytest.mark.parametrize("window_bytes", [1 << 20, 4096, HEADER_SIZE + 30])
@pytest.mark.parametrize("seed", range(8))
def test_the_scan_finds_what_a_plain_walk_finds(fs, tmp_path, monkeypatch, seed, window_bytes):
    monkeypatch.setattr(scan_module, "WINDOW_BYTES", window_bytes)
    chance = random.Random(seed)
    data = random_batches(chance, 200)
    result, found, progress = scanned(fs, tmp_path, data)
    assert found.damage == ""
    assert result == plain_walk(data)
    assert progress.scanned_bytes == len(data), "also where windows cut batches, which are read again then"


@pytest.mark.parametrize("window_bytes", [1 << 20, 4096])
@pytest.mark.parametrize("seed", range(12))
def test_the_scan_ends_where_a_plain_walk_ends(fs, tmp_path, monkeypatch, seed, window_bytes):
    monkeypatch.setattr(scan_module, "WINDOW_BYTES", window_bytes)
    chance = random.Random(seed)
    data = bytearray(random_batches(chance, 60))
    kind = chance.choice(["flip", "cut", "zeros"])
    position = chance.randrange(len(data))
    if kind == "flip":
        data[position] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del data[position:]
    else:
        data[position:] = bytes(len(data) - position)
    expected, (result, found, _) = plain_walk(bytes(data)), scanned(fs, tmp_path, bytes(data))
    if kind == "flip" and result[0] > expected[0]:
        pytest.skip("the byte lies outside of the checksum")
    assert result[0] <= expected[0], "offsets that do not ascend end the walk, too"
    if result[0] == expected[0]:
        assert result == expected
    if result[0] < len(data):
        assert found.damage


def test_a_batch_longer_than_the_window_is_checked_piece_by_piece(fs, tmp_path, monkeypatch):
    monkeypatch.setattr(scan_module, "WINDOW_BYTES", 4096)
    data = b""
    for offset, size in enumerate((10, 4096, 100_000, 50_001, 3)):
        batch = bytearray(build_batch([(None, bytes([offset]) * size, (), NOW)]))
        patch_offset_and_epoch(batch, 0, offset, 0)
        data += bytes(batch)
    result, found, progress = scanned(fs, tmp_path, data)
    assert result[:2] == (len(data), 5)
    assert progress.scanned_bytes == len(data)
    damaged = bytearray(data)
    damaged[60_000] ^= 1
    result, found, _ = scanned(fs, tmp_path, bytes(damaged))
    assert result[1] == 2
    assert "wrong CRC" in found.damage
    result, found, _ = scanned(fs, tmp_path, data[:60_000])
    assert result[1] == 2
    assert "torn" in found.damage


def test_a_length_beyond_the_file_reads_nothing_twice(fs, tmp_path):
    data = bytearray(random_batches(random.Random(1), 20))
    data[8:12] = b"\x7f\xff\xff\xff"
    result, found, progress = scanned(fs, tmp_path, bytes(data))
    assert result[0] == 0
    assert "torn" in found.damage
    assert progress.scanned_bytes == len(data)
