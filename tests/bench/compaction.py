"""Compaction: how fast a 1 GiB log is cleaned, and what a steady produce load on another partition feels of it.

The load sends a small request every millisecond, whatever the answers do, and takes the latency from the moment each
was due. It runs once with the cleaner idle and once while the log is cleaned; the broker and its cleaner process share
one core, the load has the other, so this is the worst case of a machine that is full.
"""

import os
import re
import select
import socket
import statistics
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from pathlib import Path

from protocol.records.builder import build_batch
from tests.bench.load import MEBIBYTE, PinnedBroker, Result, connect, pump
from tests.harness.batches import Record
from tests.harness.batches import build as build_small
from tests.harness.raw import RawClient, eventually, produce_values

VERSION = 9
LOG_BYTES = 1024 * MEBIBYTE
BATCH_RECORDS = 900
DISTINCT_BATCHES = 128
"""Each comes eight times, so an eighth of the log stays."""
INTERVAL_NS = 1_000_000
IDLE_SECONDS = 10
MIN_REQUESTS = 3_000
ASK_EVERY_NS = 20_000_000
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
    frame, answer_size = _frame(client, other, build_small([Record(os.urandom(100), timestamp=_now_ms())]))
    with connect(client.address) as connection:
        _load(connection, frame, answer_size, _for_seconds(1))  # warm
        _note(idle, _load(connection, frame, answer_size, _for_seconds(IDLE_SECONDS)))
        before = _metric(broker, "odradek_log_cleaner_seconds_total")
        passes = _metric(broker, "odradek_log_cleaner_passes_total")
        _set(client, log, "min.cleanable.dirty.ratio", "0.01")
        eventually(lambda: _metric(broker, "odradek_log_cleaner_running"), what="the cleaning has begun")
        _note(busy, _load(connection, frame, answer_size, _until_cleaned(broker, log)))
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


def _load(connection: socket.socket, frame: bytes, answer_size: int, is_over: Callable[[], bool]) -> list[float]:
    """Send a request every millisecond until it is over, which is asked often; return latencies in milliseconds."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    latencies: list[float] = []
    due: deque[int] = deque()
    received = 0
    next_ns = time.perf_counter_ns()
    asked_ns = next_ns
    goes_on = True
    while goes_on or due:
        now_ns = time.perf_counter_ns()
        if goes_on and now_ns >= next_ns:
            connection.sendall(frame)
            due.append(next_ns)
            next_ns += INTERVAL_NS
            if now_ns - asked_ns > ASK_EVERY_NS:
                asked_ns = now_ns
                goes_on = len(latencies) < MIN_REQUESTS or not is_over()
        elif poll.poll(0 if goes_on else 1_000):
            received += len(connection.recv(65536))
            now_ns = time.perf_counter_ns()
            while received >= answer_size:
                received -= answer_size
                latencies.append((now_ns - due.popleft()) / 1e6)
    return latencies


def _for_seconds(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def _until_cleaned(broker: PinnedBroker, topic: str) -> Callable[[], bool]:
    """Look into the cleaner's checkpoint, which is written at the end: cheaper than to ask the broker."""
    checkpoint = broker.data_directory / "cleaner-offset-checkpoint"
    return lambda: checkpoint.exists() and f"\n{topic} 0 " in checkpoint.read_text()


def _note(samples: dict[str, list[float]], latencies: list[float]) -> None:
    cuts = statistics.quantiles(latencies, n=100)
    for name, value in (("p50", cuts[49]), ("p99", cuts[98]), ("max", max(latencies))):
        samples[name].append(value)


def _frame(client: RawClient, topic: str, batch: bytes) -> tuple[bytes, int]:
    _, frame = client.frame("produce", VERSION, **produce_values(topic, {0: batch}, acks=1))
    client.socket.sendall(frame)
    return frame, len(client.receive_frame()) + 4


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
