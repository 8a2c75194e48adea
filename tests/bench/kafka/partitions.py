"""Thousands of partitions: how long creation, metadata, a clean stop and a clean start take, and the memory."""

import statistics
import time

from protocol.records.builder import build_batch
from tests.bench.kafka import process
from tests.bench.kafka.session import Session, reconnect, start
from tests.bench.members import frame
from tests.harness.raw import RawClient, eventually, produce_values

METADATA_REQUESTS = 20
CREATE_VERSION = 7
METADATA_VERSION = 12
LEAST_BYTES = 24
"""Of a partition in that version: error, index, leader, epoch, three lists and tags."""
PRODUCE_VERSION = 9
PER_REQUEST = 250
WITHIN_S = 240.0
STEPS = (("partitions-1k", 1_000), ("partitions-5k", 4_000))
"""The second step adds so many to the first one's."""


def run(session: Session, _: str) -> None:
    """Take both steps; each writes a record into every new partition before it stops the broker."""
    total = 0
    for name, more in STEPS:
        count = session.scaled(more)
        total += count
        began = time.perf_counter()
        _create(session.client, name, count)
        session.note(f"{name}-create", time.perf_counter() - began)
        _write_into_each(session.client, name, count)
        session.note(f"{name}-metadata", _metadata_ms(session.client, total))
        session.note(f"{name}-memory", process.resident_megabytes(session.broker.pid))
        began = time.perf_counter()
        session.broker.stop(timeout_s=session.broker.stop_timeout_s)
        session.note(f"{name}-stop", time.perf_counter() - began)
        session.note(f"{name}-start", start(session.broker, name))
        reconnect(session)
        eventually(lambda: _leads_all(session.client, name, count), within_s=WITHIN_S, what="leaders")  # noqa: B023
        session.check_held(name, count, count + 1)
        session.note(f"{name}-memory-started", process.resident_megabytes(session.broker.pid))


def _create(client: RawClient, topic: str, count: int) -> None:
    """Create a topic and wait until all its partitions have a leader that answers."""
    row = {"name": topic, "num_partitions": count, "replication_factor": 1}
    answer = client.request("create_topics", CREATE_VERSION, topics=[row], timeout_ms=int(WITHIN_S * 1000))
    assert answer.topics[0].error_code == 0, answer
    eventually(lambda: _leads_all(client, topic, count), within_s=WITHIN_S, every_s=0.05, what="leaders")


def _leads_all(client: RawClient, topic: str, count: int) -> bool:
    wanted = [{"partition_index": index, "timestamp": -1} for index in range(count)]
    answer = client.request("list_offsets", 1, replica_id=-1, topics=[{"name": topic, "partitions": wanted}])
    return all(row.error_code == 0 for row in answer.topics[0].partitions)


def _write_into_each(client: RawClient, topic: str, count: int) -> None:
    batch = bytes(build_batch([(None, b"x" * 100)], timestamp=int(time.time() * 1000)))
    for first in range(0, count, PER_REQUEST):
        parts = dict.fromkeys(range(first, min(first + PER_REQUEST, count)), batch)
        answer = client.request("produce", PRODUCE_VERSION, **produce_values(topic, parts, acks=-1))
        assert all(row.error_code == 0 for row in answer.responses[0].partition_responses), answer


def _metadata_ms(client: RawClient, partitions: int) -> float:
    """Ask for everything a few times; return the median in milliseconds, without decoding."""
    request = frame("metadata", METADATA_VERSION, topics=None, allow_auto_topic_creation=False)
    taken = []
    for _ in range(METADATA_REQUESTS):
        began = time.perf_counter()
        client.socket.sendall(request)
        answer = client.receive_frame()
        taken.append(time.perf_counter() - began)
    assert len(answer) > partitions * LEAST_BYTES, f"{len(answer)} bytes of metadata for {partitions} partitions"
    return statistics.median(taken) * 1e3
