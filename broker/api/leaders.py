"""Where a partition is led, told to a client that asked the wrong broker. Source: KIP-951."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.api.route import RequestContext
from broker.metadata.image import ClusterImage
from broker.partition.errors import FencedLeaderEpoch, NotLeader


class Leaders:
    """Answers `current_leader` and `node_endpoints` of Produce and Fetch responses."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def current(self, topic: str | None, partition: int, failure: Exception) -> tuple[int, int] | None:
        """Give (leader id, leader epoch) when the failure is one that a look at the leader would cure."""
        if topic is None or not isinstance(failure, (NotLeader, FencedLeaderEpoch)):
            return None
        found = self._image().topics_by_name.get(topic)
        if found is None or partition >= len(found.partitions):
            return None
        placed = found.partitions[partition]
        return placed.leader, placed.leader_epoch

    def fill(self, leader_ids: set[int], endpoint_type: Any, context: RequestContext) -> list[Any]:
        """Build `endpoint_type` structs for the named leaders, with the addresses clients of this listener reach."""
        structs = []
        for node_id in sorted(leader_ids):
            broker = self._image().brokers.get(node_id)
            for endpoint in broker.endpoints if broker is not None else ():
                if broker is not None and endpoint.name == context.listener.name:
                    structs.append(
                        endpoint_type(node_id=node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
                    )
        return structs
