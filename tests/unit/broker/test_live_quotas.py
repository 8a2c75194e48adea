"""Quotas of the metadata reach those who are held to them."""

from __future__ import annotations

import asyncio

import pytest

from broker.live_quotas import LiveQuotas
from broker.metadata.access import AccessImage, QuotaEntity
from broker.metadata.image import ClusterImage, Delta
from broker.quota.entities import Sharers
from broker.quota.kind import EXPIRY_MS
from broker.runtime.tasks import TaskOwner
from config.views import ListenerConfig, NetworkConfig, QuotaConfig

LISTENERS = tuple(ListenerConfig(name, "PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0) for name in ("INTERNAL", "PUBLIC"))


class Rig:
    """Live quotas, and images that change them."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.tasks = TaskOwner("test")
        network = NetworkConfig(listeners=LISTENERS, inter_broker_listener_name="INTERNAL")
        config = QuotaConfig(window_num=3, window_size_seconds=2, controller_window_num=2)
        self.live = LiveQuotas(config, network, lambda: self.now_ns, self.tasks)

    def publish(self, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
        self.live.publish(Delta(), ClusterImage("c", access=AccessImage(quotas=quotas)))

    def produce(self, size: int) -> int:
        meter = self.live.clients.meter("User:ann", "app", size, self.now_ns)
        meter.produced(is_answered=True)
        return meter.settle()


@pytest.fixture
async def rig():
    rig = Rig()
    yield rig
    await rig.tasks.close()


async def test_an_image_sets_changes_and_takes_away_quotas(rig: Rig) -> None:
    rig.publish({(("client-id", "app"),): {"producer_byte_rate": 100.0}})
    assert rig.produce(400) == 0, "two windows of two seconds"
    assert rig.produce(100) == 1_000
    rig.publish({(("client-id", "app"),): {"producer_byte_rate": 200.0}})
    assert rig.produce(100) == 0
    rig.publish({})
    assert not rig.live.clients.is_active


async def test_changes_of_the_cluster_have_windows_of_their_own(rig: Rig) -> None:
    rig.publish({(("user", "ann"),): {"controller_mutation_rate": 5.0}})
    quota = rig.live.clients.meter("User:ann", "", 0, 0).mutations(strict=True)
    assert quota is not None
    assert quota.use.measure.tokens(5.0, 0) == 10


async def test_addresses_have_their_quotas_and_host_names_are_looked_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look_up(host: str, port: object) -> list[tuple[object, ...]]:
        if host == "nowhere.example":
            raise OSError("unknown")
        return [(0, 0, 0, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    rig.publish(
        {
            (("ip", "a.example"),): {"connection_creation_rate": 1.0},
            (("ip", "nowhere.example"),): {"connection_creation_rate": 1.0},
            (("ip", "10.0.0.8"),): {"connection_creation_rate": 2.0},
        }
    )
    await rig.tasks.join()
    connections = rig.live.connections
    assert [connections.refusal_ms("PUBLIC", "10.0.0.7") > 0 for _ in range(5)] == [False] * 4 + [True]
    assert [connections.refusal_ms("PUBLIC", "10.0.0.8") > 0 for _ in range(9)] == [False] * 8 + [True]
    assert connections.refusal_ms("PUBLIC", "10.0.0.9") == 0


async def test_those_not_heard_of_for_long_are_forgotten(rig: Rig) -> None:
    rig.publish({(("client-id", None),): {"producer_byte_rate": 1.0}, (("ip", None),): {"connection_creation_rate": 1}})
    rig.produce(1)
    rig.live.connections.refusal_ms("PUBLIC", "10.0.0.7")
    assert [sharers for sharers, _ in rig.live.clients.produce.most_throttled(5)] == [Sharers("", "app")]
    rig.now_ns += EXPIRY_MS * 1_000_000
    rig.live.forget_idle()
    assert rig.live.clients.produce.use_count == 0
