"""Fetch: warm data in 1 MiB pieces, against a bare sendfile loop over the same file.

It must be the same one: how a file was written decides how the kernel keeps its pages together, and with it what
sending them costs.
"""

import struct
import time
from pathlib import Path

from tests.bench import bare
from tests.bench.load import MEBIBYTE, PinnedBroker, Result, connect, pump
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.raw import RawClient, fetch_row, fetch_values, produce_values

VERSION = 11
PIECES = 256
BATCHES_PER_PIECE = 64
PASSES = 4
WINDOWS = {1: "one in flight, as consumers", 2: "two in flight"}


def run(directory: Path, rounds: int) -> list[Result]:
    """Fill one partition, then read it over and over from the page cache."""
    broker = PinnedBroker(directory / "fetch")
    broker.start()
    try:
        with RawClient((broker.host, broker.port)) as client:
            _fill(client)
            frames, sizes = _pieces(client)
            segment = broker.data_directory / "warm-0" / "00000000000000000000.log"
            return [
                result
                for window in WINDOWS
                for result in _compare(client, segment, rounds, frames, sizes, window=window)
            ]
    finally:
        broker.close()


def _fill(client: RawClient) -> None:
    client.create_topic("warm")
    now = int(time.time() * 1000)
    batch = batches.of_size(MEBIBYTE // BATCHES_PER_PIECE)
    record = Record(batches.parse(batch)[0].records()[0].value, timestamp=now)
    batch = batches.build([record])
    assert len(batch) == MEBIBYTE // BATCHES_PER_PIECE
    for _ in range(PIECES * BATCHES_PER_PIECE // 16):
        for _ in range(16):
            client.send("produce", 9, **produce_values("warm", {0: batch}, acks=1))
        for _ in range(16):
            assert client.receive("produce", 9)[1].responses[0].partition_responses[0].error_code == 0


def _pieces(client: RawClient) -> tuple[list[bytes], list[int]]:
    """Encode one request for each piece and learn the size of its answer."""
    frames, sizes = [], []
    for piece in range(PIECES):
        row = fetch_row(0, piece * BATCHES_PER_PIECE, partition_max_bytes=MEBIBYTE)
        values = fetch_values([{"topic": "warm", "partitions": [row]}], version=VERSION, max_bytes=MEBIBYTE)
        _, frame = client.frame("fetch", VERSION, **values)
        client.socket.sendall(frame)
        sizes.append(len(client.receive_frame()) + 4)
        frames.append(frame)
    assert min(sizes) > MEBIBYTE, "an answer holds less than a piece"
    return frames, sizes


def _compare(
    client: RawClient, segment: Path, rounds: int, frames: list[bytes], sizes: list[int], *, window: int
) -> list[Result]:
    header = struct.pack(">i", sizes[0] - 4) + bytes(sizes[0] - MEBIBYTE - 4)
    megabytes = PASSES * PIECES * MEBIBYTE / 1e6
    ours, theirs = [], []
    for _ in range(rounds):
        with connect(client.address) as connection:
            ours.append(megabytes / pump(connection, frames * PASSES, lambda index: sizes[index % PIECES], window))
        serve = bare.send_files([segment], len(frames[0]), header, MEBIBYTE)
        with bare.serving(serve) as address, connect(address) as connection:
            theirs.append(megabytes / pump(connection, frames * PASSES, lambda _: sizes[0], window))
    ratios = [100 * mine / bare_loop for mine, bare_loop in zip(ours, theirs, strict=True)]
    return [
        Result(f"fetch, 1 MiB, {WINDOWS[window]}", "MB/s", ours),
        Result("  bare sendfile", "MB/s", theirs),
        Result("  ratio", "%", ratios, ">= 70"),
    ]
