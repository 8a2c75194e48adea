"""A randomized workload of many clients, under kills and pauses of the broker and the clients, against the rules."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.harness.broker import BrokerFactory
from tests.history.crowd import Crowd, Role

SHOCKS = int(os.environ.get("ODRADEK_TEST_SHOCKS", "6"))
TOPICS = {"a": 2, "b": 1, "c": 3}
QUICK_GROUPS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.session.timeout.ms": "2000",
}

PRODUCERS = (
    Role("plain", "plain"),
    Role("once", "once", {"codec": "lz4"}),
    Role("transactions", "transactions", {"is_transactional": True}),
    Role("implicit", "implicit", {"is_transactional": True}),
    Role("kafka-python-once", "kafka-python-once"),
    Role("aiokafka-transactions", "aiokafka-transactions", {"is_transactional": True}),
)


def members(kind: str, group: str, count: int, *, is_committed: bool, **settings: object) -> list[Role]:
    """Give the members of one group."""
    return [
        Role(f"{group}-{number}", kind, {"group": group, "is_committed": is_committed, **settings})
        for number in range(count)
    ]


CASTS = {
    "consumer groups": [
        *members("consumer", "new", 2, is_committed=True, protocol="consumer"),
        *members("consumer", "static", 2, is_committed=False, protocol="consumer", is_static=True),
    ],
    "classic groups": [
        *members("consumer", "classic", 2, is_committed=True, protocol="classic"),
        *members("kafka-python-consumer", "python", 1, is_committed=True, is_static=True),
        *members("aiokafka-consumer", "aio", 1, is_committed=False),
    ],
}


def random_properties(rng: random.Random) -> dict[str, str]:
    """Choose how the broker writes; segments are small, so that transactions and sessions cross them."""
    return {
        "log.segment.bytes": str(1024 * 1024),
        "log.preallocate": rng.choice(("true", "false")),
        "log.flush.interval.messages": rng.choice(("1", "100", str(2**63 - 1))),
        "compression.type": rng.choice(("producer", "producer", "zstd")),
    }


@pytest.mark.timeout(400 + 10 * SHOCKS)
@pytest.mark.parametrize("cast", CASTS)
def test_a_random_workload_under_kills_and_pauses_has_no_anomaly(
    broker_factory: BrokerFactory, tmp_path: Path, rng: random.Random, cast: str
) -> None:
    broker = broker_factory({**QUICK_GROUPS, **random_properties(rng)})
    crowd = Crowd(broker, tmp_path, [*PRODUCERS, *CASTS[cast]], TOPICS, rng)
    crowd.start()
    try:
        for _ in range(SHOCKS):
            crowd.shock()
        crowd.finish()
    finally:
        crowd.close()
    crowd.check()
    print(cast, dict(crowd.figures))
