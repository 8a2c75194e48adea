"""Java's transactional producer in Apache Kafka's own tools: copies under kills, and transactions by the clock.

VerifiableProducer begins no transactions; TransactionalMessageCopier is what the same tests of Apache Kafka use.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import batches, java
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.tool_host import Tools
from tests.harness.transacting import committed, wait_until_decided
from tests.harness.transactions import is_abort

pytestmark = pytest.mark.jvm

COUNT = 2_000
PER_BATCH = 500
TIMEOUT_S = 90


@pytest.fixture
def copier(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Give a function that starts a copier; all end with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def start(broker: BrokerProcess, source: str, target: str) -> subprocess.Popen[bytes]:
        arguments = (
            *("--broker-list", broker.bootstrap, "--input-topic", source, "--output-topic", target),
            *(
                "--input-partition",
                "0",
                "--consumer-group",
                f"copies-of-{source}",
                "--transactional-id",
                f"id-{source}",
            ),
            *("--transaction-size", "50", "--transaction-timeout", "10000"),
            *("--enable-random-aborts", "--use-group-metadata", "--group-mode"),
        )
        command = java.command_line(
            java.MAIN_CLASSES["kafka-transactional-message-copier"],
            *arguments,
            jvm_options=(*java.TOOL_OPTIONS, *java.QUIET),
        )
        with (tmp_path / f"copier-{len(running)}.log").open("wb") as log:
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


def test_a_copier_under_kills_copies_each_record_once(
    broker_factory: BrokerFactory, copier: Callable[..., subprocess.Popen[bytes]], unique: str
) -> None:
    """Members of a group, transactions that abort by chance, a copier that dies and a broker that does."""
    broker = broker_factory()
    source, target = f"{unique}-in", f"{unique}-out"
    expected = [f"{number:05}" for number in range(COUNT)]
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic(source)
        client.create_topic(target)
        for first in range(0, COUNT, PER_BATCH):
            client.append(source, batches.simple(*expected[first : first + PER_BATCH]))

    def has_copied(count: int) -> bool:
        with RawClient((broker.host, broker.port)) as client:
            return client.list_offset(target, -1, isolation=1).offset > count

    first_copier = copier(broker, source, target)
    eventually(lambda: has_copied(COUNT // 5), within_s=TIMEOUT_S, what="some are copied")
    first_copier.kill()
    second = copier(broker, source, target)
    eventually(lambda: has_copied(COUNT // 2), within_s=TIMEOUT_S, what="more are copied")
    broker.kill()
    broker.start()
    assert second.wait(TIMEOUT_S) == 0, "the client lives through a restart of the broker"
    with RawClient((broker.host, broker.port)) as client:
        wait_until_decided(client, target)
        assert [str(record.value, "ascii") for record in committed(client, target)] == expected


def test_a_performance_test_in_transactions_commits_all_it_sends(
    tools: Tools, shared_broker: BrokerProcess, unique: str
) -> None:
    sent = tools.run(
        *("kafka-producer-perf-test", "--topic", unique, "--num-records", "5000", "--record-size", "100"),
        *("--throughput", "10000", "--transactional-id", unique, "--transaction-duration-ms", "20"),
    )
    assert "5000 records sent" in sent
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        wait_until_decided(client, unique)
        all_batches = batches.parse(client.fetch_all(unique))
        markers = [batch for batch in all_batches if batch.attributes & batches.CONTROL]
        assert len(markers) >= 2 and not any(is_abort(marker) for marker in markers)
        assert sum(batch.count for batch in all_batches) - len(markers) == 5000
        # Each transaction of a Java client of this release has an epoch of its own (KIP-890).
        assert len({marker.producer_epoch for marker in markers}) == len(markers)
