"""SIGKILL under load, again and again, at moments nobody chose."""

from __future__ import annotations

import os
import random

import pytest

from tests.crash.kills import Kills, connect
from tests.crash.load import (
    GroupMember,
    IdempotentProducer,
    Ledger,
    Load,
    PlainProducer,
    all_of,
    committed_offset,
    consumer,
)
from tests.harness import batches
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.raw import eventually

ROUNDS = int(os.environ.get("ODRADEK_TEST_KILLS", "50"))
# Every fifth start or so is killed while it recovers from the kill before.
KILLS = Kills(life_s=(0, 0.8), recovery_s=0.4, while_starting=0.2)
GROUP = "survivors"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("preallocate", "rounds"), [("false", ROUNDS), ("true", -(-ROUNDS // 5))])
def test_nothing_acknowledged_is_lost_or_doubled_over_many_kills(
    broker_factory: BrokerFactory, rng: random.Random, preallocate: str, rounds: int
) -> None:
    broker = broker_factory({"log.segment.bytes": str(1024 * 1024), "log.preallocate": preallocate})
    ledgers = {name: Ledger(name) for name in ("plain", "once")}
    with connect(broker) as client:
        for name in ledgers:
            client.create_topic(name)
    plain = PlainProducer(broker, ledgers["plain"])
    once = IdempotentProducer(broker, ledgers["once"])
    member = GroupMember(broker, "once", GROUP)
    loads: list[Load] = [plain, once, member]
    all_of(loads, Load.start)
    try:
        eventually(lambda: member.committed > 0, within_s=30)
        for _ in range(rounds):
            KILLS.kill_and_start(broker, rng)
            promised_commit = member.committed
            with connect(broker) as client:
                for ledger in ledgers.values():
                    ledger.check(client)
            assert committed_offset(broker, GROUP, "once") >= promised_commit
            assert [load.failure for load in loads] == [None] * len(loads)
    finally:
        all_of([plain, once], Load.stop)
        all_of([member], Load.stop)

    with connect(broker) as client:
        for ledger in ledgers.values():
            ledger.check_from_the_start(client)
            assert ledger.acknowledged_count > rounds
        # Every value the idempotent producer took was delivered once, in order, whatever died in between.
        assert client.end_offset("once") == once.count == ledgers["once"].acknowledged_count
    assert_the_group_resumes_at_its_commit(broker, member)


def assert_the_group_resumes_at_its_commit(broker: BrokerProcess, member: GroupMember) -> None:
    committed = committed_offset(broker, GROUP, "once")
    assert committed >= member.committed > 0
    assert member.seen >= set(range(committed))
    successor = consumer(broker, GROUP)
    try:
        with connect(broker) as client:
            client.append("once", batches.simple(b"so that there is something left to read"))
        successor.subscribe(["once"])
        first = eventually(lambda: successor.poll(0.1), within_s=60)
        assert (first.error(), first.offset()) == (None, committed)
    finally:
        successor.close()
