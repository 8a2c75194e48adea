"""More partitions than descriptors, and what a start says of its recovery."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import RawClient, produce_values

pytestmark = pytest.mark.skipif(reference_wanted(), reason="about Odradek's own process")

PARTITIONS = 400
DESCRIPTORS = 512


class FrugalBroker(BrokerProcess):
    """A broker that may have few files open, and cannot raise the limit."""

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", *super().command()]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FrugalBroker]:
    broker = FrugalBroker(tmp_path, {"index.interval.bytes": "0", "log.index.interval.bytes": "0"})
    broker.start()
    yield broker
    broker.close()
    assert broker.trouble() == []


def produce_to_all(client: RawClient, value: str) -> None:
    """Write one batch into every partition, with one request."""
    batch = batches.simple(value)
    client.send("produce", 9, **produce_values("many", dict.fromkeys(range(PARTITIONS), batch), acks=1))
    answers = client.receive("produce", 9)[1].responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [0] * PARTITIONS


def values_in(client: RawClient, partition: int) -> list[bytes | None]:
    fetched = batches.parse(client.fetch_all("many", partition=partition))
    return [record.value for batch in fetched for record in batch.records()]


def test_partitions_need_no_descriptors_of_their_own(broker: FrugalBroker) -> None:
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("many", partitions=PARTITIONS)
        for value in ("one", "two", "three"):
            produce_to_all(client, value)
        assert len(os.listdir(f"/proc/{broker.pid}/fd")) < DESCRIPTORS // 2
        for partition in range(0, PARTITIONS, 7):
            assert values_in(client, partition) == [b"one", b"two", b"three"]
    broker.kill()
    broker.start()
    loaded = re.search(
        r"logs loaded dir=\S+ count=(\d+) clean=False scanned_bytes=(\d+) cut_bytes=0", broker.log_text()
    )
    assert loaded is not None
    assert int(loaded[1]) == PARTITIONS
    size = (broker.data_directory / "many-0/00000000000000000000.log").stat().st_size
    assert int(loaded[2]) == PARTITIONS * size
    metrics = broker.http_get("/metrics")
    label = f'dir="{broker.data_directory}"'
    assert f"kafka_log_logmanager_remaininglogstorecover{{{label}}} 0\n" in metrics
    for thread in (0, 1):
        name = "kafka_log_logmanager_remainingsegmentstorecover"
        assert f'{name}{{{label},threadNum="{thread}"}} 0\n' in metrics
    assert f"odradek_log_recovery_bytes{{{label}}} {PARTITIONS * size}\n" in metrics
    assert f"odradek_log_recovery_expected_bytes{{{label}}} {PARTITIONS * size}\n" in metrics
    assert f"odradek_log_recovery_cut_bytes{{{label}}} 0\n" in metrics
    with RawClient((broker.host, broker.port)) as client:
        produce_to_all(client, "four")
        assert values_in(client, PARTITIONS - 1) == [b"one", b"two", b"three", b"four"]
    assert broker.stop() == 0
    broker.start()
    assert re.search(rf"logs loaded dir=\S+ count={PARTITIONS} clean=True", broker.log_text())
