"""Consume with Kafka's ConsumerPerformance: warm and cold data, and ten groups that read one topic side by side."""

import os
import time
from pathlib import Path

from tests.bench.kafka import produce
from tests.bench.kafka.session import Session
from tests.harness.raw import eventually

PASSES = 3
GROUPS = 10
READS = {
    "consume-1k": "produce-1k",
    "consume-100b": "produce-100b",
    "consume-100b-lz4": "produce-100b-lz4",
}


def warm(session: Session, name: str) -> None:
    """Read a topic a few times from the page cache, each time in a new group; note the rate over all passes."""
    topic = READS[name]
    count = produce.filled(session, topic)
    before = session.cpu_seconds()
    seconds = 0.0
    for number in range(PASSES):
        consumed = session.tools.consume(topic, count=count, group=f"{name}-{number}")
        seconds += consumed.count / consumed.rate
    session.note(name, PASSES * count / seconds)
    session.note_cpu(name, session.cpu_seconds() - before, PASSES * count)


def cold(session: Session, name: str) -> None:
    """Read a topic that only the disk has."""
    topic = "produce-1k"
    count = produce.filled(session, topic)
    for path in sorted(session.broker.data_directory.glob(f"{topic}-*/*.log")):
        if path.parent.name.removeprefix(f"{topic}-").isdecimal():  # not of a topic with a longer name
            _drop_from_page_cache(path)
    before = session.cpu_seconds()
    consumed = session.tools.consume(topic, count=count, group=name)
    session.note(name, consumed.rate)
    session.note_cpu(name, session.cpu_seconds() - before, count)


def _drop_from_page_cache(path: Path) -> None:
    """Write a file to the disk and have the kernel forget its pages; insist that it has.

    It keeps pages that a processor has touched a moment ago until that processor lets them go, so it is asked again.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        size = os.fstat(file).st_size

        def is_forgotten() -> bool:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            return not size or not _is_resident(file, size // 2)

        eventually(is_forgotten, within_s=5.0, every_s=0.05, what=f"{path} out of the page cache")
    finally:
        os.close(file)


def _is_resident(file: int, position: int) -> bool:
    try:
        os.preadv(file, [bytearray(1)], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    return True


def groups(session: Session, name: str) -> None:
    """Have ten groups of one consumer each read the same topic at once; note what all of them get in a second."""
    topic = "produce-1k"
    count = produce.filled(session, topic)
    before = session.cpu_seconds()
    began = time.perf_counter()
    session.tools.consume_together(topic, count=count, group=name, consumers=GROUPS)
    seconds = time.perf_counter() - began
    session.note(name, GROUPS * count / seconds)
    session.note_cpu(name, session.cpu_seconds() - before, GROUPS * count)
