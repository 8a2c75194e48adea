"""Publishers: who is told about each committed change, in the order in which they subscribed."""

from __future__ import annotations

from collections.abc import Callable

from broker.metadata.image import ClusterImage, Delta, full_delta

Publisher = Callable[[Delta, ClusterImage], None]


class Publishers:
    """An ordered list of subscribers. A publisher is synchronous; one that fails stops the controller."""

    __slots__ = ("_publishers",)

    def __init__(self) -> None:
        self._publishers: list[Publisher] = []

    def subscribe(self, publisher: Publisher) -> None:
        """Add a subscriber behind the present ones."""
        self._publishers.append(publisher)

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Tell everybody about one step."""
        for publisher in self._publishers:
            publisher(delta, image)

    def publish_all(self, image: ClusterImage) -> None:
        """Tell everybody about a whole image, as the step from nothing."""
        self.publish(full_delta(image), image)
