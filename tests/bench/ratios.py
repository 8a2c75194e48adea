"""The fixed set: what one core gets through against a bare loop that moves the same bytes, in alternating rounds.

What `make bench` runs, and compares with the ratios in the repository (`ratios.json`), which `make bench ARGS=--record`
renews. A run takes about a minute.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench import bare
from tests.bench.kafka import machine
from tests.bench.load import MEBIBYTE, PinnedBroker, connect, pump
from tests.bench.stored import HEADING, Spread, Stored, decode, encode, line, spread_of
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import ROOT
from tests.harness.raw import RawClient, fetch_row, fetch_values, produce_values

FILE = Path(__file__).with_name("ratios.json")
COMMAND = "make bench ARGS=--record"
PRODUCE_VERSION = 9
FETCH_VERSION = 11
BATCH_BYTES = 16 * 1024
READ_PARTITIONS = 16
PARTITION_BYTES = 8 * MEBIBYTE
"""What each partition has that is read over and over."""
FETCHED_BYTES = 512 * MEBIBYTE
"""What is read of them in a round."""


class Load(NamedTuple):
    """Requests that are sent over and over, and what the bare loop does with each."""

    name: str
    blocks: Sequence[bytes]
    answer_sizes: Sequence[int]
    window: int
    bare: Callable[[Path], bare.Serve]
    """Make the bare loop, given a directory to write in."""

    def seconds(self, address: tuple[str, int]) -> float:
        """Push all of it through a new connection."""
        sizes = self.answer_sizes
        with connect(address) as connection:
            return pump(connection, self.blocks, lambda index: sizes[index % len(sizes)], self.window)


def run(directory: Path, rounds: int, *, is_recorded: bool) -> None:
    """Measure, print what came out beside what is stored, and store it if that is asked for."""
    stored = decode(FILE.read_text(encoding="utf-8")) if FILE.exists() else Stored({}, {})
    for name, value in stored.facts.items():
        print(f"stored {name}: {value}")
    print(HEADING)
    ratios: dict[str, Spread] = {}
    broker = PinnedBroker(directory / "broker")
    broker.start()
    try:
        with RawClient((broker.host, broker.port)) as client:
            for load in _loads(client, broker.data_directory):
                ratios[load.name] = spread_of([_ratio(load, client.address, directory) for _ in range(rounds)])
                print(line(load.name, ratios[load.name], stored.ratios.get(load.name)), flush=True)
    finally:
        broker.close()
    if is_recorded:
        FILE.write_text(encode(Stored(_facts(), ratios)), encoding="utf-8")
        print(f"stored in {FILE.relative_to(ROOT)}")


def _ratio(load: Load, broker: tuple[str, int], directory: Path) -> float:
    ours = load.seconds(broker)
    with bare.serving(load.bare(directory)) as address:
        return 100 * load.seconds(address) / ours


def _loads(client: RawClient, data: Path) -> Iterator[Load]:
    one = _batch(1, 100)
    yield _produce(client, "one record a request, pipelined", {0: one}, 40_000, per_block=50, window=8)
    yield _produce(client, "one record a request, one in flight", {0: one}, 8_000, per_block=1, window=1)
    full = _batch(16, 1024)
    yield _produce(client, "16 KiB batches", {0: full}, 6_000, per_block=4, window=4)
    yield _produce(client, "64 KiB batches", {0: _batch(64, 1024)}, 1_500, per_block=1, window=4)
    yield _produce(client, "12 partitions a request, 16 KiB each", dict.fromkeys(range(12), full), 500, window=2)
    yield _produce(client, "lz4, 16 KiB batches of 100 B", {0: _batch(400, 100, batches.LZ4)}, 3_000, window=4)
    _fill(client, full)
    yield _fetch(client, data, "fetch, 1 MiB of one partition", [0], full, MEBIBYTE)
    yield _fetch(client, data, "fetch, 64 KiB of each of 16", range(READ_PARTITIONS), full, MEBIBYTE // 16)


def _batch(count: int, size: int, codec: int = batches.NONE) -> bytes:
    """Make a batch of records of `size` bytes, half of them chance and half zeros."""
    now = int(time.time() * 1000)
    value_size = min(size, (BATCH_BYTES * max(1, count * size // BATCH_BYTES) - batches.HEADER_SIZE) // count) - 9
    values = [os.urandom(value_size // 2) + bytes(value_size - value_size // 2) for _ in range(count)]
    return batches.build([Record(value, timestamp=now) for value in values], codec=codec)


def _produce(
    client: RawClient, name: str, parts: dict[int, bytes], count: int, *, per_block: int = 1, window: int
) -> Load:
    topic = f"load-{sum(map(ord, name))}"
    client.create_topic(topic, len(parts))
    _, frame = client.frame("produce", PRODUCE_VERSION, **produce_values(topic, parts, acks=1))
    client.socket.sendall(frame)
    answer = client.receive_frame()
    assert client.end_offset(topic) == batches.parse(parts[0])[0].count, "the first produce was refused"
    positions, position = [], 0
    for batch in parts.values():
        position = frame.index(batch, position)
        positions.append(position - 4)
        position += len(batch)
    size = len(answer) + 4
    return Load(
        f"produce, {name}",
        [frame * per_block] * (count // per_block),
        [size * per_block],
        window,
        lambda directory: bare.receive_check_write(
            [directory / f"bare-{index}" for index in parts], positions, bytes(size)
        ),
    )


def _fill(client: RawClient, batch: bytes) -> None:
    client.create_topic("read", READ_PARTITIONS)
    values = produce_values("read", dict.fromkeys(range(READ_PARTITIONS), batch))
    for _ in range(PARTITION_BYTES // BATCH_BYTES):
        client.request("produce", PRODUCE_VERSION, **values)


def _fetch(client: RawClient, data: Path, name: str, partitions: Sequence[int], batch: bytes, piece: int) -> Load:
    """Read pieces of whole batches one after the other; the bare loop sends as many bytes."""
    count = piece // BATCH_BYTES
    step = count * batches.parse(batch)[0].count
    frames, sizes = [], []
    for offset in range(0, client.end_offset("read"), step):
        rows = [fetch_row(partition, offset, partition_max_bytes=piece) for partition in partitions]
        values = fetch_values([{"topic": "read", "partitions": rows}], version=FETCH_VERSION)
        _, frame = client.frame("fetch", FETCH_VERSION, **values)
        client.socket.sendall(frame)
        frames.append(frame)
        sizes.append(len(client.receive_frame()) + 4)
    assert len(set(sizes)) == 1, "the pieces differ"
    read = count * len(batch)
    header = bytes(sizes[0] - read * len(partitions))
    files = [data / f"read-{partition}" / "00000000000000000000.log" for partition in partitions]
    return Load(
        name,
        frames * (FETCHED_BYTES // sizes[0] // len(frames)),
        sizes,
        1,
        lambda _: bare.send_files(files, len(frames[0]), header, read),
    )


def _facts() -> dict[str, str]:
    return {
        "command": COMMAND,
        "commit": machine.commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{machine.processor()}, {machine.kernel()}, {machine.python()}",
        "code": machine.form(),
    }
