"""Scheduled delivery against the values that topics inherit: whoever comes second is refused, topic or broker.

The entries of one request are judged in their order, each above what those before it would leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.metadata.errors import InvalidConfiguration
from broker.metadata.image import TOPIC_RESOURCE, ClusterImage
from config.broker_changes import usable_layer
from config.errors import InvalidConfig
from config.resolve import ConfigSource, Resolver
from config.scheduling import check_inheritors, is_scheduled


class DeliveryExclusions:
    """Takes what is to be stored, entry by entry, each checked under the `resolver` that those before it leave."""

    def __init__(self, image: ClusterImage, resolver: Resolver) -> None:
        self._image = image
        self.resolver = resolver  # of what topics would inherit
        self._topics: dict[str, Mapping[str, str]] = {}  # those altered so far

    def take_topic(self, name: str, overrides: Mapping[str, str]) -> None:
        """Take the overrides that a topic is to have, checked under `resolver`."""
        self._topics[name] = overrides

    def take_broker(self, name: str, values: Mapping[str, str]) -> None:
        """Take the dynamic values that the broker is to have, those for all brokers if the name is empty.

        Raises InvalidConfiguration where a scheduled topic would inherit what excludes that.
        """
        source = ConfigSource.DYNAMIC_BROKER if name else ConfigSource.DYNAMIC_DEFAULT_BROKER
        proposed = self.resolver.with_layers({source: usable_layer(values, is_default=not name)})
        try:
            check_inheritors(self._scheduled(), self.resolver, proposed)
        except InvalidConfig as invalid:
            raise InvalidConfiguration(str(invalid)) from invalid
        self.resolver = proposed

    def _scheduled(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        for (kind, name), overrides in self._image.configs.items():
            if kind == TOPIC_RESOURCE and name not in self._topics and is_scheduled(overrides):
                yield name, overrides
        yield from self._topics.items()
