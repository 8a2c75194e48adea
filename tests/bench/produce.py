"""Produce: small pipelined requests per second, and 16 KiB batches against the bare receive-check-write loop."""

import os
import time
from pathlib import Path

from tests.bench import bare
from tests.bench.load import MEBIBYTE, PinnedBroker, Result, connect, pump
from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.raw import RawClient, produce_values

VERSION = 9
SMALL_REQUESTS = 60_000
SMALL_PER_BLOCK = 50
SMALL_WINDOW = 8
LARGE_BATCH_BYTES = 16384
LARGE_BYTES = 256 * MEBIBYTE
LARGE_PER_BLOCK = 4
LARGE_WINDOW = 4


def run(directory: Path, rounds: int) -> list[Result]:
    """Measure on a fresh broker."""
    broker = PinnedBroker(directory / "produce")
    broker.start()
    try:
        with RawClient((broker.host, broker.port)) as client:
            results = [_small(client, rounds)]
            for name, count, size in (("16 x 1 KiB", 16, 1024), ("160 x 100 B", 160, 100)):
                results += _large(client, directory, rounds, name, _batch_of(count, size))
            return results
    finally:
        broker.close()


def _small(client: RawClient, rounds: int) -> Result:
    batch = batches.build([Record(os.urandom(100), timestamp=int(time.time() * 1000))])
    samples = []
    for number in range(rounds):
        topic = f"small-{number:02}"
        client.create_topic(topic)
        frame, answer_size = _frame(client, topic, batch)
        blocks = [frame * SMALL_PER_BLOCK] * (SMALL_REQUESTS // SMALL_PER_BLOCK)
        seconds = _through(client.address, blocks, answer_size * SMALL_PER_BLOCK, SMALL_WINDOW)
        assert client.end_offset(topic) == SMALL_REQUESTS + 1
        samples.append(SMALL_REQUESTS / seconds)
        client.delete_topic(topic)
    return Result("produce, 1 record of 100 B, pipelined", "req/s", samples, ">= 30,000")


def _large(client: RawClient, directory: Path, rounds: int, name: str, batch: bytes) -> list[Result]:
    count = LARGE_BYTES // len(batch) // LARGE_PER_BLOCK * LARGE_PER_BLOCK
    megabytes = count * len(batch) / 1e6
    ours, theirs = [], []
    for number in range(rounds):
        topic = f"large-{number:02}"
        client.create_topic(topic)
        frame, answer_size = _frame(client, topic, batch)
        blocks = [frame * LARGE_PER_BLOCK] * (count // LARGE_PER_BLOCK)
        ours.append(megabytes / _through(client.address, blocks, answer_size * LARGE_PER_BLOCK, LARGE_WINDOW))
        assert client.end_offset(topic) == (count + 1) * batches.parse(batch)[0].count
        client.delete_topic(topic)
        target = directory / "bare.log"
        serve = bare.receive_check_write([target], [frame.index(batch) - 4], bytes(answer_size))
        with bare.serving(serve) as address:
            theirs.append(megabytes / _through(address, blocks, answer_size * LARGE_PER_BLOCK, LARGE_WINDOW))
    ratios = [100 * mine / bare_loop for mine, bare_loop in zip(ours, theirs, strict=True)]
    return [
        Result(f"produce, 16 KiB batches of {name}", "MB/s", ours, ">= 400, or the ratio"),
        Result("  bare receive, CRC, write", "MB/s", theirs),
        Result("  ratio", "%", ratios, ">= 60"),
    ]


def _batch_of(count: int, size: int) -> bytes:
    """Fill 16 KiB with records whose values have ``size`` bytes less what a record's own fields take."""
    now = int(time.time() * 1000)
    value = (LARGE_BATCH_BYTES - batches.HEADER_SIZE) // count - 9
    return batches.build([Record(os.urandom(min(size, value)), timestamp=now) for _ in range(count)])


def _frame(client: RawClient, topic: str, batch: bytes) -> tuple[bytes, int]:
    """Produce once for real; return the request's bytes and the size of its answer with its length."""
    _, frame = client.frame("produce", VERSION, **produce_values(topic, {0: batch}, acks=1))
    client.socket.sendall(frame)
    answer = client.receive_frame()
    assert client.end_offset(topic) == batches.parse(batch)[0].count, "the first produce was refused"
    return frame, len(answer) + 4


def _through(address: tuple[str, int], blocks: list[bytes], answer_size: int, window: int) -> float:
    with connect(address) as connection:
        return pump(connection, blocks, lambda _: answer_size, window)
