"""LiveConfig: the configuration that is in force under a cluster image.

The static configuration never changes; the dynamic layers above it and the topics' overrides live in the image, as
config records. Whoever needs a value asks with the image at hand, so a command that is planned on an image that is not
public yet is judged by what that image says.

Source: DynamicBrokerConfig, DynamicConfigPublisher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from broker.metadata.image import BROKER_RESOURCE, ClusterImage
from config.broker_changes import usable_layer
from config.resolve import ConfigSource, Resolver
from config.views import LogConfig, log_config, with_overrides

V = TypeVar("V")

_NOTHING: Mapping[str, str] = {}


class LiveConfig:
    """Gives the resolver, and the settings of each topic's logs, under an image."""

    def __init__(self, static: Resolver, node_id: int) -> None:
        self._static = static
        self._name = str(node_id)
        # The last layers asked for and what follows from them. An image keeps what it does not change, so the same
        # layers are the same objects.
        self._layers: tuple[Mapping[str, str], Mapping[str, str]] = (_NOTHING, _NOTHING)
        self._resolver = static
        self._inherited = log_config(static, {})

    def resolver(self, image: ClusterImage) -> Resolver:
        """Return the resolver with the dynamic layers of `image`."""
        of_broker = image.configs.get((BROKER_RESOURCE, self._name), _NOTHING)
        of_default = image.configs.get((BROKER_RESOURCE, ""), _NOTHING)
        if of_broker is not self._layers[0] or of_default is not self._layers[1]:
            self._layers = of_broker, of_default
            self._resolver = self._static.with_layers(
                {
                    ConfigSource.DYNAMIC_BROKER: usable_layer(of_broker, is_default=False),
                    ConfigSource.DYNAMIC_DEFAULT_BROKER: usable_layer(of_default, is_default=True),
                }
            )
            inherited = log_config(self._resolver, {})
            if inherited != self._inherited:
                self._inherited = inherited
        return self._resolver

    def log_config(self, topic: str, image: ClusterImage) -> LogConfig:
        """Return the settings of a topic's logs; topics without overrides share one value."""
        resolver = self.resolver(image)
        overrides = image.topic_config(topic)
        return with_overrides(self._inherited, resolver, overrides)


class LiveView(Generic[V]):
    """A view of the settings in force: asking is cheap, it is built anew only after they changed."""

    def __init__(self, live: LiveConfig, image: Callable[[], ClusterImage], build: Callable[[Resolver], V]) -> None:
        self._live = live
        self._image = image
        self._build = build
        self._resolver = live.resolver(image())
        self._view = build(self._resolver)

    def __call__(self) -> V:
        """Return the view under the image of now."""
        resolver = self._live.resolver(self._image())
        if resolver is not self._resolver:
            self._view = self._build(resolver)
            self._resolver = resolver
        return self._view
