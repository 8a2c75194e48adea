"""Publishers: who is told about each committed change, in the order in which they subscribed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.metadata.image import ClusterImage, Delta, full_delta

Publisher = Callable[[Delta, ClusterImage], None]

Preparer = Callable[[Delta, ClusterImage], Awaitable[None]]
"""Does beside the loop what publishing a step would make the loop wait for; the step is not public yet."""


class Publishers:
    """An ordered list of subscribers. A publisher is synchronous; one that fails stops the controller."""

    __slots__ = ("_preparers", "_publishers")

    def __init__(self) -> None:
        self._publishers: list[Publisher] = []
        self._preparers: list[Preparer] = []

    def subscribe(self, publisher: Publisher, prepare: Preparer | None = None) -> None:
        """Add a subscriber behind the present ones."""
        self._publishers.append(publisher)
        if prepare is not None:
            self._preparers.append(prepare)

    async def prepare(self, delta: Delta, image: ClusterImage) -> None:
        """Let everybody who wants get ready for a step that is about to be published."""
        for prepare in self._preparers:
            await prepare(delta, image)

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Tell everybody about one step."""
        for publisher in self._publishers:
            publisher(delta, image)

    def publish_all(self, image: ClusterImage) -> None:
        """Tell everybody about a whole image, as the step from nothing."""
        self.publish(full_delta(image), image)
