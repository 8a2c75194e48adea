"""One pending batch in front of 1 GiB of small active batches, and one at their end.

What is behind the first is read, header by header, when that one is released: its times say nothing of where the next
pending one is. That must not be felt by others, nor by those who start the broker.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.load import MEBIBYTE, Result, connect, pump
from tests.bench.scheduled.probe import Probe
from tests.bench.scheduled.topics import (
    UNCERTAINTY_MS,
    Usage,
    batch_at,
    now_ms,
    poll_frame,
    restart,
    started,
    until_right,
    wait_for,
)
from tests.harness.raw import RawClient, produce_values

BATCH_BYTES = 1024
BATCHES = 1024 * MEBIBYTE // BATCH_BYTES
PER_BLOCK = 64
WINDOW = 4
HEAD_AFTER_MS = 90_000
SEGMENTS = {"one segment": 2048 * MEBIBYTE - 1, "segments of 64 MiB": 64 * MEBIBYTE}
TOPIC = "t"


def run(directory: Path) -> Iterator[Result]:
    """Measure with the log in one segment, and in many."""
    for name, segment_bytes in SEGMENTS.items():
        yield from _measure(directory / str(segment_bytes), name, segment_bytes)


def _measure(directory: Path, name: str, segment_bytes: int) -> Iterator[Result]:
    with started(directory) as (broker, client):
        client.create_topic(TOPIC, delivery_mode="scheduled", segment_bytes=str(segment_bytes))
        at = now_ms() + HEAD_AFTER_MS
        client.append(TOPIC, batch_at(at), acks=1)
        _fill(client)
        end = BATCHES + 1
        client.append(TOPIC, batch_at(at + 86_400_000), acks=1)
        assert client.end_offset(TOPIC) == 0
        wait_for(at)
        probe, usage = Probe(client.address), Usage(broker)
        client.socket.sendall(poll_frame(TOPIC, 0, 0, 120_000))
        client.receive_frame()
        first_ms = time.time() * 1000 - at - UNCERTAINTY_MS
        until_right(client, TOPIC, 1, end)
        right_ms = time.time() * 1000 - at - UNCERTAINTY_MS
        cpu_us = usage.cpu_us()
        waits = probe.waits_ms()
        yield Result(f"1 GiB behind a pending batch, {name}: first", "ms", [first_ms])
        yield Result("... watermark right, after due", "ms", [right_ms])
        yield Result("... longest wait of another client", "ms", waits[-1:])
        yield Result("... p99 of its waits", "ms", [waits[len(waits) * 99 // 100]])
        yield Result("... processor time", "ms", [cpu_us / 1000])
        ready, right = restart(broker, lambda again: again.end_offset(TOPIC) == end)
        yield Result("... restart after SIGKILL: ready", "s", [ready], "<= 2")
        yield Result("... exec to the watermark right", "s", [right])


def _fill(client: RawClient) -> None:
    batch = batch_at(now_ms() - 60_000, BATCH_BYTES - 61 - 12)
    _, frame = client.frame("produce", 9, **produce_values(TOPIC, {0: batch}, acks=1))
    client.socket.sendall(frame)
    answer_size = (len(client.receive_frame()) + 4) * PER_BLOCK
    with connect(client.address) as connection:
        blocks = [frame * PER_BLOCK] * (BATCHES // PER_BLOCK)
        pump(connection, blocks[1:], lambda _: answer_size, WINDOW)
        remaining = PER_BLOCK - 1
        pump(connection, [frame * remaining], lambda _: answer_size // PER_BLOCK * remaining, 1)
