"""What the rooms of consumer groups need to know of the rest of the broker."""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.group.consumer.metadata_hash import TopicHashes
from broker.coordinator.runtime import RunAside
from broker.coordinator.stats import GroupStats
from broker.metadata.image import ClusterImage
from config.views import ConsumerGroupConfig, GroupConfig, GroupSettings
from protocol.errors import ErrorCode


class ConsumerWorld:
    """Shared by all shards of one coordinator."""

    def __init__(
        self,
        config: GroupConfig,
        image: Callable[[], ClusterImage],
        settings_of: Callable[[str], GroupSettings],
        run_aside: RunAside,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], str],
        error_code: Callable[[BaseException], ErrorCode],
    ) -> None:
        self.error_code = error_code
        self.classic_max_size = config.max_size
        self.config: ConsumerGroupConfig = config.consumer
        self.image = image
        self.settings_of = settings_of
        self.run_aside = run_aside
        self.now_ms = now_ms
        self.new_uuid = new_uuid
        self.hashes = TopicHashes()
        self.stats = GroupStats()
        # The version of the metadata that last brought a new topic; regular expressions resolved before are outdated.
        self.new_topics_version = -1

    def metadata_version(self) -> int:
        """Give the offset of the last record of the metadata in force."""
        return self.image().end_offset - 1
