"""Consume-transform-produce loops of stock clients under SIGKILL of the broker and of the client: exactly once."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest

from tests.harness.broker import BrokerFactory
from tests.history.transforming import WAITING_PHASES, Kind, Loop

ROUNDS = int(os.environ.get("ODRADEK_TEST_TRANSFORM_ROUNDS", "3"))

PROPERTIES = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.session.timeout.ms": "2000",
}

KINDS = (
    Kind("confluent"),
    Kind("confluent", "consumer"),
    Kind("confluent", "consumer", is_static=True),
    Kind("kafka-python"),
    Kind("aiokafka", workers=1),
    Kind("raw", workers=1),
)


def moments(rng: random.Random) -> list[tuple[str, str]]:
    """Give every pair of whom to kill and at which phase, in random order; two pauses among them."""
    phases = (*WAITING_PHASES, "committing", "committing", "anytime")
    kills = itertools.product(("broker", "client", "both"), phases)
    pairs = [*kills, ("pause", "offsets"), ("pause", "produced")]
    rng.shuffle(pairs)
    return pairs


@pytest.mark.timeout(120 + 20 * ROUNDS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_each_inputs_effect_is_seen_exactly_once(
    broker_factory: BrokerFactory, tmp_path: Path, rng: random.Random, kind: Kind
) -> None:
    loop = Loop(broker_factory(PROPERTIES), tmp_path, kind, rng)
    loop.start()
    try:
        for victim, phase in itertools.islice(itertools.cycle(moments(rng)), ROUNDS):
            loop.round(victim, phase)
        loop.finish()
    finally:
        loop.close()
    loop.check()
    print(kind, loop.figures)
