"""Recovery: the scan after an unclean stop over warm files, against a bare loop that reads and checks the CRCs.

The bare loop walks the same file with one read a window and one CRC a batch and keeps nothing; recovery besides follows
offsets, producers and epochs and writes the indexes. Both run in this process, so the machine's mood hits both.
"""

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

from config.views import LogConfig
from protocol.records.batch import HEADER, HEADER_SIZE, BatchHeader, compute_crc, patch_offset_and_epoch
from protocol.records.crc import crc32c
from storage.env.clock import SeededRng, SystemClock
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition
from tests.bench.load import MEBIBYTE, Result

WINDOW_BYTES = MEBIBYTE
SHAPES = (
    # name, batch bytes, bytes of log, producer id, target
    ("16 KiB batches", 16384, 512 * MEBIBYTE, -1, ">= 70"),
    ("16 KiB batches, idempotent", 16384, 512 * MEBIBYTE, 7, ">= 70"),
    ("200 B batches", 200, 64 * MEBIBYTE, -1, ""),
    ("200 B batches, idempotent", 200, 64 * MEBIBYTE, 7, ""),
)
_WALK = struct.Struct(">8xi5xI")


def run(directory: Path, rounds: int) -> list[Result]:
    """Measure each shape of log; the file is written once and recovered over and over."""
    results = []
    for name, batch_bytes, log_bytes, producer_id, target in SHAPES:
        log_dir = directory / f"log-{len(results)}"
        path, batch_count = _fill(log_dir, batch_bytes, log_bytes, producer_id)
        size = path.stat().st_size
        ours, theirs = [], []
        _bare_scan(path)  # warm
        for _ in range(rounds):
            ours.append(_timed(lambda: _recover(log_dir, batch_count)))  # noqa: B023
            theirs.append(_timed(lambda: _bare_scan(path)))  # noqa: B023
        results += [
            Result(
                f"recovery, {name}", "MB/s", [size / 1e6 / seconds for seconds in ours], ">= 1,000" if target else ""
            ),
            Result("  batches", "1000/s", [batch_count / 1e3 / seconds for seconds in ours]),
            Result("  bare read and CRC", "MB/s", [size / 1e6 / seconds for seconds in theirs]),
            Result("  ratio", "%", [100 * bare / mine for mine, bare in zip(ours, theirs, strict=True)], target),
        ]
        path.unlink()
    return results


def _fill(log_dir: Path, batch_bytes: int, log_bytes: int, producer_id: int) -> tuple[Path, int]:
    """Write one segment of equal batches with ascending offsets."""
    log_dir.mkdir()
    path = log_dir / "00000000000000000000.log"
    length = batch_bytes - 12
    header = BatchHeader(0, length, 0, 2, 0, 0, 0, 1_700_000_000_000, 1_700_000_000_000, producer_id, 0, 0, 1)
    batch = bytearray(HEADER.pack(*header) + os.urandom(batch_bytes - HEADER_SIZE))
    struct.pack_into(">I", batch, 17, compute_crc(batch, 0, batch_bytes))
    count = log_bytes // batch_bytes
    per_write = max(1, MEBIBYTE // batch_bytes)
    with path.open("wb") as file:
        for first in range(0, count, per_write):
            several = batch * min(per_write, count - first)
            for index in range(len(several) // batch_bytes):
                patch_offset_and_epoch(several, index * batch_bytes, first + index, 0)
            file.write(several)
    return path, count


def _recover(log_dir: Path, batch_count: int) -> None:
    log = PartitionLog.open(
        PosixFileSystem(), SystemClock(), SeededRng(1), str(log_dir), TopicPartition("log", 0), LogConfig()
    )
    assert log.log_end_offset == batch_count
    log.fail()


def _bare_scan(path: Path) -> int:
    """Read window after window into one buffer and compare the CRC of every batch; return how many there are."""
    window = memoryview(bytearray(WINDOW_BYTES))
    unpack = _WALK.unpack_from
    position = count = 0
    file = os.open(path, os.O_RDONLY)
    try:
        while (got := os.preadv(file, [window], position)) > HEADER_SIZE:
            at, limit = 0, got - HEADER_SIZE
            while at <= limit:
                length, crc = unpack(window, at)
                end = at + 12 + length
                if end > got:
                    break
                if crc32c(window[at + 21 : end]) != crc:
                    raise ValueError("CRC")
                count += 1
                at = end
            position += at
    finally:
        os.close(file)
    return count


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
