"""SIGKILL with records pending and coming due: after each start none is early, none lost, none there twice."""

from __future__ import annotations

import os
import random

import pytest

from broker.offline.verify.run import Verification
from storage.env.posix import PosixFileSystem
from tests.crash.kills import Kills, connect
from tests.crash.load import Load, all_of
from tests.crash.scheduled_load import (
    DELAYS_MS,
    Promises,
    ScheduledConsumer,
    ScheduledMember,
    ScheduledProducer,
    ScheduledTransactions,
)
from tests.harness.broker import BrokerFactory, reference_wanted
from tests.harness.raw import eventually

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Apache Kafka has no scheduled topics")

TOPICS = {"later": "false", "later-direct": "true"}  # whether they are preallocated, and written past the page cache
PARTITIONS = 6
PLACES = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
UNCERTAINTY_MS = 60
ROUNDS = int(os.environ.get("ODRADEK_TEST_KILLS", "50")) // 12
KILLS = Kills(life_s=(0.1, 0.5), recovery_s=0.3, while_starting=0.25)
PROPERTIES = {
    "odradek.log.delivery.clock.uncertainty.ms": str(UNCERTAINTY_MS),
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}


@pytest.mark.timeout(300)
def test_scheduled_records_survive_kills_and_come_once_and_in_time(
    broker_factory: BrokerFactory, rng: random.Random
) -> None:
    broker = broker_factory(PROPERTIES)
    with connect(broker) as client:
        for topic, preallocate in TOPICS.items():
            options = {"preallocate": preallocate, "segment_ms": "1500"}  # a few segments
            client.create_topic(topic, PARTITIONS, delivery_mode="scheduled", **options)
    promises = Promises()
    producer = ScheduledProducer(broker, PLACES, promises)
    transactions = ScheduledTransactions(broker, PLACES, promises)
    follower = ScheduledConsumer(broker, PLACES, UNCERTAINTY_MS)
    member = ScheduledMember(broker, PLACES, UNCERTAINTY_MS)
    loads: list[Load] = [producer, transactions, follower, member]
    all_of(loads, Load.start)
    try:
        eventually(lambda: sum(member.committed.values()) > 0 and transactions.committed > 0, within_s=30)
        for _ in range(ROUNDS):
            before = len(promises.kept)
            eventually(
                lambda before=before: (len(promises.kept) > before and promises.pending_count() > 0) or broken(loads),
                within_s=30,
            )
            KILLS.kill_and_start(broker, rng)
            assert not broken(loads)
        all_of([producer, transactions], Load.stop)
        for reader in (follower, member):
            eventually(
                lambda reader=reader: reader.failure is not None or promises.kept.items() <= reader.seen.items(),
                within_s=max(DELAYS_MS) / 1000 + 30,
            )
    finally:
        all_of([producer, transactions], Load.stop)
        all_of([follower, member], Load.stop)
    for reader in (follower, member):
        assert not promises.void & set(reader.seen.values()), "aborted records were read"
        assert len(set(reader.seen.values())) == len(reader.seen), "a record is there twice"
    assert producer.count <= len(promises.kept)
    assert broker.stop() == 0
    findings = Verification(PosixFileSystem(), list(map(str, broker.log_directories))).run().findings
    assert not [one for one in findings if one.is_fault]


def broken(loads: list[Load]) -> list[BaseException]:
    return [load.failure for load in loads if load.failure is not None]
