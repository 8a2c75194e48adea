"""Apache Kafka's performance tools are held to quotas that its ConfigCommand has set."""

from __future__ import annotations

import re

import pytest

from tests.harness import tool_host
from tests.harness.broker import BrokerFactory, BrokerProcess

pytestmark = pytest.mark.jvm

RECORD_BYTES = 1_000
RATE = 400_000
COUNT = 8_000
# Few and short windows: what is allowed at once, one of them, disappears among what takes many.
PROPERTIES = {"quota.window.num": "2", "quota.window.size.seconds": "1"}


def _configs(broker: BrokerProcess, *arguments: str) -> str:
    return tool_host.run("kafka-configs", "--bootstrap-server", broker.bootstrap, *arguments)


def _quota(broker: BrokerProcess, *arguments: str) -> None:
    _configs(broker, "--alter", "--entity-type", "clients", *arguments)


def _produce(broker: BrokerProcess, topic: str, count: int) -> tuple[float, float]:
    """Send records as fast as possible; return the bytes a second, and how long at most the producer was throttled."""
    printed = tool_host.run(
        *("kafka-producer-perf-test", "--topic", topic, "--num-records", str(count), "--throughput", "-1"),
        *("--record-size", str(RECORD_BYTES), "--print-metrics", "--producer-props"),
        *(f"bootstrap.servers={broker.bootstrap}", "client.id=perf", "linger.ms=5", "buffer.memory=1000000"),
    )
    (mebibytes,) = re.findall(rf"^{count} records sent, .*\(([\d.]+) MB/sec\)", printed, re.MULTILINE)
    (throttled_ms,) = re.findall(r"produce-throttle-time-max:.*: ([\d.]+)", printed)
    return float(mebibytes) * 1024 * 1024, float(throttled_ms)


def _is_held(rate: float) -> bool:
    """Tell whether a rate is that of the quota; a machine that is busy may be slower, but nothing may be faster."""
    return RATE / 2 < rate < RATE * 1.1


def test_a_producer_and_a_consumer_get_their_quotas_and_no_more(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(PROPERTIES)
    _quota(broker, "--entity-name", "perf", "--add-config", f"producer_byte_rate={RATE}")
    _quota(broker, "--entity-default", "--add-config", f"consumer_byte_rate={RATE}")
    described = _configs(broker, "--describe", "--entity-type", "clients")
    assert f"producer_byte_rate={float(RATE)}" in described and f"consumer_byte_rate={float(RATE)}" in described

    rate, throttled_ms = _produce(broker, "t", COUNT)
    assert _is_held(rate)
    assert throttled_ms > 0

    header, row = tool_host.run(
        *("kafka-consumer-perf-test", "--bootstrap-server", broker.bootstrap, "--topic", "t"),
        *("--num-records", str(COUNT), "--timeout", "60000", "--fetch-size", "100000"),
    ).splitlines()[-2:]
    columns = dict(zip(header.split(", "), row.split(", "), strict=True))
    assert int(columns.get("data.consumed.in.nMsg") or columns["nMsg"]) == COUNT
    assert _is_held(float(columns["fetch.MB.sec"]) * 1024 * 1024)

    _quota(broker, "--entity-name", "perf", "--delete-config", "producer_byte_rate")
    rate, throttled_ms = _produce(broker, "t", COUNT)
    assert rate > 3 * RATE and throttled_ms == 0
