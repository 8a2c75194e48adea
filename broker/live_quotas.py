"""LiveQuotas: the quotas of the cluster's metadata, as clients and connections are held to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.metadata.image import ClusterImage, Delta
from broker.quota.clients import ClientQuotas
from broker.quota.connections import ConnectionRates
from broker.quota.entities import EntityQuotas
from broker.quota.rates import Windows
from broker.runtime.scheduler import Scheduler
from broker.runtime.tasks import TaskOwner
from config.views import NetworkConfig, QuotaConfig

logger = logging.getLogger(__name__)

FORGET_EVERY_MS = 60_000


class LiveQuotas:
    """A publisher of the metadata tells it of changes."""

    def __init__(
        self, config: QuotaConfig, network: NetworkConfig, monotonic_ns: Callable[[], int], tasks: TaskOwner
    ) -> None:
        windows = Windows(config.window_num, config.window_size_seconds * 1000)
        controller_windows = Windows(config.controller_window_num, config.controller_window_size_seconds * 1000)
        self.clients = ClientQuotas(windows, controller_windows, monotonic_ns)
        self.connections = ConnectionRates(
            windows,
            self.clients.now_ms,
            [listener.name for listener in network.listeners],
            network.inter_broker_listener_name,
        )
        self._tasks = tasks
        self._followed: EntityQuotas = {}

    def start(self, scheduler: Scheduler) -> None:
        """Begin to forget those who were not heard of for long."""
        scheduler.every("quotas", FORGET_EVERY_MS, self.forget_idle)

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Follow a new image."""
        quotas = image.access.quotas
        if quotas is self._followed:
            return
        self._followed = quotas
        self.clients.follow(quotas)
        for name in self.connections.follow(quotas):
            self._tasks.spawn("resolve", self._resolve(name))

    def forget_idle(self) -> None:
        """Forget clients and addresses that were not heard of for long."""
        self.clients.forget_idle()
        self.connections.forget_idle()

    async def _resolve(self, name: str) -> None:
        """Look up the address of a host that a quota is set for."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(name, None)
        except (OSError, UnicodeError) as failure:
            logger.warning("quota has no effect, its host has no address host=%s reason=%s", name, failure)
            return
        self.connections.note_address(name, str(found[0][4][0]))
