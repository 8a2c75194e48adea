"""LiveSettings: hands settings that change while the broker runs to the rooms that keep a copy of them.

Other rooms ask through a getter; logs are told by their partitions.
"""

from __future__ import annotations

import logging

from broker.background.moves.run import Moves
from broker.background.recovery import Recovery
from broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage, Delta
from broker.metadata.live_config import LiveConfig
from broker.net.listener import Listeners
from config.build import connection_limits, cordoned_log_dirs, log_manager_config, metrics_config, move_config
from config.resolve import Resolver
from config.scheduling import obstacle_to_delivery
from config.views import MetricsConfig
from storage.dirs.manager import LogManager

_logger = logging.getLogger(__name__)


class LiveSettings:
    """A publisher of the metadata tells it of changes."""

    def __init__(
        self,
        live: LiveConfig,
        logs: LogManager,
        recovery: Recovery,
        listeners: Listeners,
        moves: Moves,
        metrics: MetricsConfig,
    ) -> None:
        self._live = live
        self._logs = logs
        self._recovery = recovery
        self._listeners = listeners
        self._moves = moves
        self.metrics = metrics
        self._obstacles: dict[str, str] = {}  # by the topic that is scheduled all the same

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Follow a new image."""
        if any(kind == BROKER_RESOURCE for kind, _ in delta.changed_configs):
            self.apply(image)

    def apply(self, image: ClusterImage) -> None:
        """Hand out what is in force under an image."""
        resolver = self._live.resolver(image)
        self._listeners.limit(connection_limits(resolver))
        self._moves.reconfigure(move_config(resolver))
        self.metrics = metrics_config(resolver)
        self._logs.cordoned = cordoned_log_dirs(resolver)
        self._logs.set_producer_id_expiration_ms(resolver.get("producer.id.expiration.ms"))
        self._recovery.thread_count = log_manager_config(resolver).recovery_threads_per_data_dir
        self._warn_of_obstacles(image, resolver)

    def takes_replicas(self, image: ClusterImage) -> bool:
        """Tell whether a log directory is left under an image that is not cordoned."""
        cordoned = cordoned_log_dirs(self._live.resolver(image))
        return any(log_dir.path not in cordoned for log_dir in self._logs.online_dirs())

    def _warn_of_obstacles(self, image: ClusterImage, resolver: Resolver) -> None:
        """Tell of scheduled topics that should not be: no request makes such, but a changed static value may."""
        found = {
            name: obstacle
            for (kind, name), overrides in image.configs.items()
            if kind == TOPIC_RESOURCE and (obstacle := obstacle_to_delivery(overrides, resolver)) is not None
        }
        for name, obstacle in found.items():
            if self._obstacles.get(name) != obstacle:
                _logger.warning("Topic %s stays scheduled, and the other setting does not count: %s", name, obstacle)
        self._obstacles = found
