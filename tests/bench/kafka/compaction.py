"""Compaction of a log in which every key comes eight times: megabytes a second from its order to its checkpoint."""

import os
import time

from protocol.records.builder import build_batch
from tests.bench.kafka.session import Session
from tests.bench.load import MEBIBYTE, connect, pump
from tests.bench.members import frame
from tests.harness.raw import RawClient, eventually, produce_values

PROPERTIES = {"log.cleaner.backoff.ms": "100"}
"""Of the brokers in this session, so that what is measured is the work and not the wait for its turn."""
LOG_BYTES = 256 * MEBIBYTE
BATCH_RECORDS = 900
TIMES = 8
PRODUCE_VERSION = 9
WITHIN_S = 120.0
_CONFIG_OF_TOPIC = 2
_SET = 0


def run(session: Session, name: str) -> None:
    """Fill a log that may not be cleaned yet, roll it, allow the cleaning, and wait for its end."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
    session.client.create_topic(name, **settings)
    size, records = _fill(session, name)
    checkpoint = session.broker.data_directory / "cleaner-offset-checkpoint"
    before = session.cpu_seconds()
    began = time.perf_counter()
    _set(session.client, name, "min.cleanable.dirty.ratio", "0.01")
    eventually(lambda: f"\n{name} 0 " in checkpoint.read_text(), within_s=WITHIN_S, every_s=0.005, what="cleaned")
    seconds = time.perf_counter() - began
    session.note(name, size / 1e6 / seconds)
    session.note_cpu(name, session.cpu_seconds() - before, records)
    _check(session, name, size)


def _fill(session: Session, topic: str) -> tuple[int, int]:
    """Write the log and one record more into a new segment; return the bytes and records that may be cleaned."""
    now = int(time.time() * 1000)
    frames = []
    size = 0
    for number in range(session.scaled(LOG_BYTES // (TIMES * BATCH_RECORDS * 1000))):
        value = os.urandom(980)
        records = [(b"key-%08d" % (number * BATCH_RECORDS + one), value) for one in range(BATCH_RECORDS)]
        batch = bytes(build_batch(records, timestamp=now))
        size += len(batch) * TIMES
        frames.append(frame("produce", PRODUCE_VERSION, **produce_values(topic, {0: batch}, acks=1)))
    client = session.client
    client.socket.sendall(frames[0])
    answer_size = len(client.receive_frame()) + 4
    with connect(client.address) as connection:
        pump(connection, (frames * TIMES)[1:], lambda _: answer_size, 4)
    session.check_held(topic, 1, len(frames) * TIMES * BATCH_RECORDS)
    _set(client, topic, "segment.ms", "1")
    last = bytes(build_batch([(b"last", b"")], timestamp=now + 60_000))
    session.client.append(topic, last)
    return size, len(frames) * TIMES * BATCH_RECORDS


def _check(session: Session, topic: str, size: int) -> None:
    """Insist that an eighth is left."""

    def left() -> bool:
        files = (session.broker.data_directory / f"{topic}-0").glob("*.log")
        return sum(path.stat().st_size for path in files) < size / TIMES * 1.1

    eventually(left, what="an eighth of the log")


def _set(client: RawClient, topic: str, name: str, value: str) -> None:
    change = {"name": name, "config_operation": _SET, "value": value}
    resource = {"resource_type": _CONFIG_OF_TOPIC, "resource_name": topic, "configs": [change]}
    answer = client.request("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert all(one.error_code == 0 for one in answer.responses), answer
