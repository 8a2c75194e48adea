"""What a controller listener answers: what administrators ask of a controller (KIP-919), and nothing of clients.

The controller is part of this process, so the handlers are those of the other listeners. Only DescribeCluster differs,
which lists controllers there; what controllers and brokers of a cluster say to each other is not served: there is one
node.

Source: the `listeners` of Kafka's request schemas, ControllerApis, AuthHelper.computeDescribeClusterResponse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.api.cluster import CLUSTER_AUTHORIZED_OPERATIONS, CONTROLLER_ENDPOINTS, wrong_endpoints
from broker.api.route import RequestContext, Route
from broker.api.table import join
from broker.api.topic_listing import AUTHORIZED_OPERATIONS_NOT_ASKED
from broker.api.versions import VersionsApi
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

SHARED_WITH_BROKERS = frozenset(
    {
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_ACLS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_ACLS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
    }
)


class ControllersApi:
    """Tells administrators which controllers there are: this one."""

    def __init__(self, image: Callable[[], ClusterImage], node_id: int) -> None:
        self._image = image
        self._node_id = node_id

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.DESCRIBE_CLUSTER, 0, 2, self.describe_cluster),)

    async def describe_cluster(
        self, request: DescribeClusterRequest, context: RequestContext
    ) -> DescribeClusterResponse:
        """List the controllers, at the address the client has reached us at."""
        if request.endpoint_type != CONTROLLER_ENDPOINTS:
            return wrong_endpoints(request.endpoint_type, CONTROLLER_ENDPOINTS, context.api_version)
        own = context.listener
        return DescribeClusterResponse(
            endpoint_type=CONTROLLER_ENDPOINTS,
            cluster_id=self._image().cluster_id,
            controller_id=self._node_id,
            brokers=[
                DescribeClusterBroker(broker_id=self._node_id, host=own.advertised_host, port=own.advertised_port)
            ],
            cluster_authorized_operations=CLUSTER_AUTHORIZED_OPERATIONS
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_NOT_ASKED,
        )


def controller_table(
    table: Mapping[ApiKey, Route], image: Callable[[], ClusterImage], node_id: int
) -> dict[ApiKey, Route]:
    """Return what a controller listener serves, out of what the other listeners serve."""
    served: dict[ApiKey, Route] = {key: table[key] for key in SHARED_WITH_BROKERS & table.keys()}
    served.update(join((ControllersApi(image, node_id), VersionsApi(lambda: served, image))))
    return dict(sorted(served.items()))
