"""Views of the settings in force: what a change of the dynamic configuration does to those who keep one."""

from __future__ import annotations

from broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage
from broker.metadata.live_config import LiveConfig, LiveView
from config.build import consumer_group_config
from config.resolve import Resolver
from config.views import ConsumerGroupConfig, LogConfig

INTERVAL = "group.consumer.assignment.interval.ms"


def image_with(**configs: dict[str, str]) -> ClusterImage:
    return ClusterImage("c", configs={(BROKER_RESOURCE, name): values for name, values in configs.items()})


def test_a_view_is_built_anew_only_after_the_settings_changed() -> None:
    image = ClusterImage("c")
    built = []

    def build(resolver: Resolver) -> ConsumerGroupConfig:
        built.append(resolver)
        return consumer_group_config(resolver)

    view = LiveView(LiveConfig(Resolver({}), 1), lambda: image, build)
    assert view().defaults.assignment_interval_ms == 1_000
    image = image_with(**{"": {INTERVAL: "5000"}})
    assert [view().defaults.assignment_interval_ms for _ in range(2)] == [5_000, 5_000]
    image = image_with(**{"": {INTERVAL: "5000"}, "1": {INTERVAL: "7000"}})
    assert view().defaults.assignment_interval_ms == 7_000
    image = ClusterImage("c")
    assert view().defaults.assignment_interval_ms == 1_000
    assert len(built) == 4


def test_what_a_topic_has_stored_and_nobody_can_read_counts_as_the_default() -> None:
    """Another version may have written it: a topic is not scheduled by mistake, and a delay not without limit."""
    stored = {"delivery.mode": "sometimes", "delivery.max.delay.ms": "soon", "delivery.schedule.monotonic": "maybe"}
    image = ClusterImage("c", configs={(TOPIC_RESOURCE, "t"): stored})
    assert LiveConfig(Resolver({}), 1).log_config("t", image) == LogConfig()
