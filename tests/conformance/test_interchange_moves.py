"""A broker is stopped while a partition moves between directories; the other one takes them over and finishes it."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess, KafkaProcess, TakeOver
from tests.harness.disk import Idempotent
from tests.harness.log_dirs import (
    create_in,
    folders,
    future_folders,
    future_in,
    move,
    places,
    throttle,
    wait_for_leaders,
    wait_until_only_in,
)
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.jvm

MIB = 1 << 20
SIZE_MIB = 8
# The reference lets the first ten seconds' worth through at once.
SLOW = MIB // 4
PROPERTIES = {
    "log.segment.bytes": str(MIB),
    "log.retention.ms": "-1",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
KINDS = {"Kafka": KafkaProcess, "Odradek": BrokerProcess}


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient((broker.host, broker.port))


def fill(client: RawClient, topic: str) -> Idempotent:
    """Append plain batches of a MiB, and some of a producer with numbers."""
    producer = Idempotent(client, topic)
    batch = batches.build([Record(b"%04d" % number + bytes(1000)) for number in range(1024)])
    for number in range(SIZE_MIB):
        client.append(topic, batch)
        assert producer.send(client, number * 3, 3)[0] == 0
    return producer


def check(broker: BrokerProcess, data: bytes, producer: Idempotent) -> None:
    """Assert that all is there, that the producer is known, and that the directories hold one log."""
    a, b = broker.log_directories
    with connect(broker) as client:
        assert client.fetch_all("t") == data
        last = (SIZE_MIB - 1) * 3
        code, offset = producer.send(client, last, 3)
        assert (code, offset) == (0, offset), "a repeated batch is recognised"
        assert client.fetch_all("t") == data
        assert list(places(client, "t")) == [str(b)]
    eventually(lambda: not folders(a, "t"), what="the source is deleted")
    assert folders(b, "t") == ["t-0"]


@pytest.mark.parametrize("clean", [True, False], ids=["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize(("first", "second"), [("Kafka", "Odradek"), ("Odradek", "Kafka"), ("Odradek", "Odradek")])
def test_a_move_that_one_began_is_finished_by_the_other(
    take_over: TakeOver, first: str, second: str, clean: bool
) -> None:
    broker = take_over(KINDS[first])
    a, b = broker.log_directories
    with connect(broker) as client:
        create_in(client, "t", a)
        producer = fill(client, "t")
        throttle(client, SLOW)
        assert move(client, b, "t") == 0
        eventually(lambda: (found := future_in(client, b, "t")) and found.size > 0, what="the copy has begun")
        client.append("t", batches.simple("while it moves"))
        data = client.fetch_all("t")
    broker.stop() if clean else broker.kill()
    assert (folders(a, "t"), len(future_folders(b, "t"))) == (["t-0"], 1)

    broker = take_over(KINDS[second])
    wait_for_leaders(broker, "t")
    with connect(broker) as client:
        assert client.fetch_all("t") == data
        throttle(client, None)
        wait_until_only_in(client, b, "t")
    check(broker, data, producer)
    broker.restart()
    wait_for_leaders(broker, "t")
    check(broker, data, producer)


def _only_the_copy(a: Path, b: Path) -> None:
    """As between the two renames of a swap of ours: the source has gone, the copy waits for its name."""
    (b / "t-0").rename(b / f"t-0.{uuid.uuid4().hex}-future")


def _both(a: Path, b: Path) -> None:
    """As before the renames: the metadata names the destination already, and the copy is complete."""
    shutil.copytree(b / "t-0", a / "t-0")
    _only_the_copy(a, b)


@pytest.mark.parametrize("state", [_only_the_copy, _both])
@pytest.mark.parametrize(("first", "second"), [("Kafka", "Odradek"), ("Odradek", "Kafka"), ("Odradek", "Odradek")])
def test_a_swap_that_one_was_killed_in_is_finished_by_the_other(
    take_over: TakeOver, first: str, second: str, state: Callable[[Path, Path], None]
) -> None:
    broker = take_over(KINDS[first])
    a, b = broker.log_directories
    with connect(broker) as client:
        create_in(client, "t", a)
        producer = fill(client, "t")
        assert move(client, b, "t") == 0
        wait_until_only_in(client, b, "t")
        data = client.fetch_all("t")
    eventually(lambda: not folders(a, "t"))
    broker.kill()
    state(a, b)

    broker = take_over(KINDS[second])
    wait_for_leaders(broker, "t")
    with connect(broker) as client:
        wait_until_only_in(client, b, "t")
    check(broker, data, producer)
