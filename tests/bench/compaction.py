"""Compaction: how fast a 1 GiB log is cleaned, and what a steady produce load on another partition feels of it.

The steady load runs once with the cleaner idle and once while the log is cleaned; the broker and its cleaner process
share one core, the load has the other, so this is the worst case of a machine that is full.
"""

import os
import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from protocol.records.builder import build_batch
from tests.bench import steady
from tests.bench.load import MEBIBYTE, PinnedBroker, Result, connect, pump
from tests.harness.batches import Record
from tests.harness.batches import build as build_small
from tests.harness.raw import RawClient, eventually, produce_values

VERSION = 9
LOG_BYTES = 1024 * MEBIBYTE
BATCH_RECORDS = 900
DISTINCT_BATCHES = 128
"""Each comes eight times, so an eighth of the log stays."""
IDLE_SECONDS = 10
CONFIG_OF_TOPIC = 2
SET = 0


def run(directory: Path, rounds: int) -> list[Result]:
    """Measure on a fresh broker."""
    broker = PinnedBroker(directory / "compaction")
    broker.properties["log.cleaner.backoff.ms"] = "100"
    broker.start()
    speed: list[float] = []
    idle: dict[str, list[float]] = {"p50": [], "p99": [], "max": []}
    busy: dict[str, list[float]] = {"p50": [], "p99": [], "max": []}
    try:
        with RawClient((broker.host, broker.port), timeout_s=60) as client:
            for number in range(min(rounds, 3)):
                _round(broker, client, f"round-{number}", speed, idle, busy)
    finally:
        broker.close()
    ratio = [100 * loaded / alone for loaded, alone in zip(busy["p99"], idle["p99"], strict=True)]
    return [
        Result("compaction, 1 KiB records, 1 GiB", "MB/s", speed, ">= 40"),
        *(Result(f"1,000 req/s while idle, {name}", "ms", samples) for name, samples in idle.items()),
        *(Result(f"1,000 req/s while compacting, {name}", "ms", samples) for name, samples in busy.items()),
        Result("  p99 while compacting, of idle", "%", ratio, "<= 200"),
    ]


def _round(
    broker: PinnedBroker,
    client: RawClient,
    name: str,
    speed: list[float],
    idle: dict[str, list[float]],
    busy: dict[str, list[float]],
) -> None:
    log, other = f"{name}-log", f"{name}-other"
    client.create_topic(log, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"})
    client.create_topic(other)
    size = _fill(client, log)
    frame, answer_size = steady.frame_of(client, other, build_small([Record(os.urandom(100), timestamp=_now_ms())]))
    with connect(client.address) as connection:
        steady.run(connection, frame, answer_size, steady.for_seconds(1))  # warm
        steady.note(idle, steady.run(connection, frame, answer_size, steady.for_seconds(IDLE_SECONDS)))
        before = _metric(broker, "odradek_log_cleaner_seconds_total")
        passes = _metric(broker, "odradek_log_cleaner_passes_total")
        _set(client, log, "min.cleanable.dirty.ratio", "0.01")
        eventually(lambda: _metric(broker, "odradek_log_cleaner_running"), what="the cleaning has begun")
        steady.note(busy, steady.run(connection, frame, answer_size, _until_cleaned(broker, log)))
    eventually(lambda: _metric(broker, "odradek_log_cleaner_passes_total") == passes + 1, what="one pass for all of it")
    speed.append(size / 1e6 / (_metric(broker, "odradek_log_cleaner_seconds_total") - before))
    for topic in (log, other):
        client.delete_topic(topic)


def _fill(client: RawClient, topic: str) -> int:
    """Write the log, and one segment's worth more so that all of it may be cleaned; return its bytes."""
    now = _now_ms()
    frames = []
    for number in range(DISTINCT_BATCHES):
        value = os.urandom(990)
        records = [(b"key-%08d" % (number * BATCH_RECORDS + one), value) for one in range(BATCH_RECORDS)]
        batch = bytes(build_batch(records, timestamp=now))
        _, frame = client.frame("produce", VERSION, **produce_values(topic, {0: batch}, acks=1))
        frames.append(frame)
    size = len(frames[0])
    count = LOG_BYTES // size
    client.socket.sendall(frames[0])
    answer_size = len(client.receive_frame()) + 4
    with connect(client.address) as connection:
        pump(connection, [frames[at % DISTINCT_BATCHES] for at in range(count)], lambda _: answer_size, 4)
    _set(client, topic, "segment.ms", "1")
    eventually(lambda: _roll(client, topic), what="a new segment")
    return count * size


def _roll(client: RawClient, topic: str) -> bool:
    client.append(topic, build_small([Record(b"v", key=b"k", timestamp=_now_ms() + 1_000)]))
    return True


def _until_cleaned(broker: PinnedBroker, topic: str) -> Callable[[], bool]:
    """Look into the cleaner's checkpoint, which is written at the end: cheaper than to ask the broker."""
    checkpoint = broker.data_directory / "cleaner-offset-checkpoint"
    return lambda: checkpoint.exists() and f"\n{topic} 0 " in checkpoint.read_text()


def _set(client: RawClient, topic: str, name: str, value: str) -> None:
    change = {"name": name, "config_operation": SET, "value": value}
    resource = {"resource_type": CONFIG_OF_TOPIC, "resource_name": topic, "configs": [change]}
    answer = client.request("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert all(one.error_code == 0 for one in answer.responses), answer


def _metric(broker: PinnedBroker, name: str) -> float:
    with urllib.request.urlopen(f"http://{broker.host}:{broker.http_port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def _now_ms() -> int:
    return int(time.time() * 1000)
