"""Client telemetry over the wire: subscriptions from configs, pushes into the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from broker.api.telemetry import TelemetryApi
from broker.metadata.image import CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE, ClusterImage
from broker.runtime.pools import Pools
from broker.telemetry.store import ClientMetricsStore
from broker.telemetry.subscriptions import Subscriptions
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.records.compression import compress
from protocol.uuids import format_uuid
from tests.harness.otlp import gauge, metrics_data, point
from tests.unit.broker.conftest import Ask

ID = b"c" * 16
PAYLOAD = metrics_data(gauge("org.apache.kafka.x", point(2.5, {"node": "1"})))


class Rig:
    """The family over an image that the test changes."""

    def __init__(self, pools: Pools) -> None:
        self.now_ms = 0.0
        self.image = ClusterImage("c")
        self.store = ClientMetricsStore()
        subscriptions = Subscriptions(lambda: self.now_ms, lambda size: b"r" * size, self.store.forget)
        self.api = TelemetryApi(lambda: self.image, subscriptions, self.store, pools, lambda: self.now_ms, 1000)

    def subscribe(self, kind: int = CLIENT_METRICS_RESOURCE, name: str = "s", **configs: str) -> None:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        self.image = replace(self.image, configs={**self.image.configs, (kind, name): given})


@pytest.fixture
def rig() -> Iterator[Rig]:
    pools = Pools()
    yield Rig(pools)
    pools.close()


async def subscription(ask: Ask, rig: Rig, instance_id: bytes = ID) -> Any:
    return await ask(rig.api, GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


async def push(ask: Ask, rig: Rig, subscription_id: int, instance_id: bytes = ID, **more: Any) -> int:
    request = PushTelemetryRequest(client_instance_id=instance_id, subscription_id=subscription_id, **more)
    code: int = (await ask(rig.api, request, 0)).error_code
    return code


async def test_a_client_is_told_what_to_push(ask: Ask, rig: Rig) -> None:
    rig.subscribe(metrics="a.,b.", interval_ms="500", match="client_id=test")
    answer = await subscription(ask, rig)
    assert (answer.error_code, answer.client_instance_id, answer.requested_metrics) == (0, ID, ["a.", "b."])
    assert (answer.push_interval_ms, answer.telemetry_max_bytes, answer.delta_temporality) == (500, 1000, True)
    assert answer.accepted_compression_types == [4, 3, 1, 2]
    assert (await subscription(ask, rig)).error_code == 89


async def test_a_client_without_an_id_is_given_one(ask: Ask, rig: Rig) -> None:
    answer = await subscription(ask, rig, bytes(16))
    assert answer.client_instance_id != bytes(16)
    assert (await push(ask, rig, answer.subscription_id, answer.client_instance_id)) == 0


@pytest.mark.parametrize("codec", range(5))
async def test_what_is_pushed_is_kept(ask: Ask, rig: Rig, codec: int) -> None:
    told = await subscription(ask, rig)
    payload = compress(codec, PAYLOAD) if codec else PAYLOAD
    assert await push(ask, rig, told.subscription_id, metrics=payload, compression_type=codec) == 0
    [sample] = rig.store.samples()
    assert sample == (format_uuid(ID), "test", "org.apache.kafka.x", "node=1", 2.5)


@pytest.mark.parametrize(
    ("codec", "payload"),
    [(0, b"\xff\xff"), (1, b"no gzip"), (4, b"no zstd"), (1, compress(1, bytes(30_000)))],
)
async def test_what_cannot_be_read_is_told(ask: Ask, rig: Rig, codec: int, payload: bytes) -> None:
    told = await subscription(ask, rig)
    assert await push(ask, rig, told.subscription_id, metrics=payload, compression_type=codec) == 87
    assert not rig.store.push_count


@pytest.mark.parametrize("instance_id", [bytes(16), bytes(15) + b"\x01"])
async def test_ids_that_nobody_may_have(ask: Ask, rig: Rig, instance_id: bytes) -> None:
    assert await push(ask, rig, 0, instance_id) == 42


async def test_refusals_reach_the_client(ask: Ask, rig: Rig) -> None:
    assert await push(ask, rig, 12345) == 117
    told = await subscription(ask, rig, b"d" * 16)
    assert await push(ask, rig, told.subscription_id, b"d" * 16, metrics=bytes(1001)) == 118


async def test_only_a_change_of_subscriptions_counts_as_one(ask: Ask, rig: Rig) -> None:
    assert (await subscription(ask, rig)).error_code == 0
    rig.subscribe(TOPIC_RESOURCE, "t", retention_ms="1")
    assert (await subscription(ask, rig)).error_code == 89
    rig.subscribe(metrics="a.")
    answer = await subscription(ask, rig)
    assert (answer.error_code, answer.requested_metrics) == (0, ["a."])
