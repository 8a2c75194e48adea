"""Every family of handlers, made of the rooms it works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple

from broker.api.acls import AclsApi
from broker.api.alter_configs import AlterConfigsApi
from broker.api.alter_log_dirs import AlterLogDirsApi
from broker.api.cluster import ClusterApi
from broker.api.cluster_admin import ClusterAdminApi
from broker.api.configs import ConfigsApi
from broker.api.credentials import CredentialsApi
from broker.api.delete_records import DeleteRecordsApi
from broker.api.elections import ElectionsApi
from broker.api.fetch import FetchApi
from broker.api.fetch_sessions import FetchSessions
from broker.api.group_admin import GroupAdminApi
from broker.api.group_classic import GroupClassicApi
from broker.api.group_consumer import GroupConsumerApi
from broker.api.group_find import GroupFindApi
from broker.api.group_offsets import GroupOffsetsApi
from broker.api.group_txn_offsets import GroupTxnOffsetsApi
from broker.api.leaders import Leaders
from broker.api.log_dirs import LogDirsApi
from broker.api.offset_delete import OffsetDeleteApi
from broker.api.offsets import OffsetsApi
from broker.api.partition_transactions import PartitionTransactionsApi
from broker.api.produce import ProduceApi
from broker.api.producers import ProducersApi
from broker.api.quotas import QuotasApi
from broker.api.reassignments import ReassignmentsApi
from broker.api.route import Route
from broker.api.table import Family
from broker.api.telemetry import TelemetryApi
from broker.api.topics import TopicsApi
from broker.api.transaction_admin import TransactionAdminApi
from broker.api.transactions import TransactionsApi
from broker.api.versions import VersionsApi
from broker.background.moves.run import Moves
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.internal_topics import INTERNAL_TOPICS
from broker.coordinator.producer_ids import ProducerIds
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.metadata.controller.run import Controller
from broker.metadata.image import ClusterImage
from broker.metadata.live_config import LiveConfig
from broker.partition.manager import PartitionManager
from broker.partition.markers import MarkerWriter
from broker.partition.verification import TransactionVerifier
from broker.runtime.pools import Pools
from broker.telemetry.store import ClientMetricsStore
from broker.telemetry.subscriptions import Subscriptions
from config.dynamic import describe_topic
from config.views import BrokerConfig, GroupConfig, ListenerConfig
from protocol.api_keys import ApiKey
from protocol.uuids import random_uuid
from storage.dirs.manager import LogManager
from storage.env.clock import Clock, Rng, monotonic_ms


class Rooms(NamedTuple):
    """What handlers work with."""

    config: BrokerConfig
    groups: GroupConfig
    live: LiveConfig
    pools: Pools
    controller: Controller
    partitions: PartitionManager
    coordinator: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    sessions: FetchSessions
    save_log_starts: Callable[[], Awaitable[None]]
    moves: Moves
    logs: LogManager
    verifier: TransactionVerifier
    markers: MarkerWriter
    clock: Clock
    rng: Rng
    client_metrics: ClientMetricsStore
    image: Callable[[], ClusterImage]
    """The cluster as it is now."""
    controller_listeners: tuple[ListenerConfig, ...] = ()
    """Those that are bound."""


def fetch_family(rooms: Rooms) -> FetchApi:
    """Make the family whose waits are to be ended at a stop."""
    leaders = Leaders(rooms.image)
    return FetchApi(rooms.partitions, rooms.image, rooms.sessions, leaders, rooms.config.fetch_max_bytes)


def families(rooms: Rooms, fetch: FetchApi, table: Mapping[ApiKey, Route]) -> tuple[Family, ...]:
    """Make all families; `table` is what their routes will be joined to, for ApiVersions."""
    image, node_id = rooms.image, rooms.config.node_id
    controller, coordinator, transactions = rooms.controller, rooms.coordinator, rooms.transactions
    return (
        ProduceApi(rooms.partitions, image, Leaders(image), rooms.pools, rooms.verifier, INTERNAL_TOPICS),
        fetch,
        OffsetsApi(rooms.partitions, rooms.pools),
        DeleteRecordsApi(rooms.partitions, rooms.save_log_starts),
        ClusterApi(controller, rooms.config),
        TopicsApi(controller, lambda overrides: describe_topic(rooms.live.resolver(image()), overrides)),
        ConfigsApi(image, rooms.live.resolver, node_id),
        AlterConfigsApi(controller, node_id),
        ReassignmentsApi(controller, image),
        ElectionsApi(controller),
        ClusterAdminApi(controller, rooms.clock.now_ms, rooms.controller_listeners),
        CredentialsApi(controller, image),
        AclsApi(
            controller,
            image,
            partial(random_uuid, rooms.rng.random_bytes),
            has_authorizer=bool(rooms.config.authorizer_class_name),
        ),
        QuotasApi(controller, image),
        _telemetry_family(rooms),
        LogDirsApi(rooms.logs, rooms.pools.io),
        AlterLogDirsApi(rooms.moves.alter),
        ProducersApi(rooms.producer_ids, transactions),
        TransactionsApi(transactions, coordinator, image),
        TransactionAdminApi(transactions),
        GroupFindApi(coordinator, transactions, node_id),
        GroupClassicApi(coordinator),
        GroupConsumerApi(coordinator, rooms.groups, image),
        GroupOffsetsApi(coordinator, image),
        GroupTxnOffsetsApi(coordinator, image),
        OffsetDeleteApi(coordinator, image),
        GroupAdminApi(coordinator),
        PartitionTransactionsApi(rooms.partitions, rooms.markers),
        VersionsApi(lambda: table, image),
    )


def _telemetry_family(rooms: Rooms) -> TelemetryApi:
    now_ms = partial(monotonic_ms, rooms.clock)
    store = rooms.client_metrics
    subscriptions = Subscriptions(now_ms, rooms.rng.random_bytes, store.forget)
    return TelemetryApi(rooms.image, subscriptions, store, rooms.pools, now_ms, rooms.config.telemetry_max_bytes)
