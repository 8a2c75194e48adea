"""The handler table as Markdown: `python -m broker.api.docs` prints docs/apis.md.

The families are looked at, not started: a route needs no collaborator to be named.
"""

from __future__ import annotations

import sys

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
from broker.api.group_admin import GroupAdminApi
from broker.api.group_classic import GroupClassicApi
from broker.api.group_consumer import GroupConsumerApi
from broker.api.group_find import GroupFindApi
from broker.api.group_offsets import GroupOffsetsApi
from broker.api.group_txn_offsets import GroupTxnOffsetsApi
from broker.api.log_dirs import LogDirsApi
from broker.api.offset_delete import OffsetDeleteApi
from broker.api.offsets import OffsetsApi
from broker.api.partition_transactions import PartitionTransactionsApi
from broker.api.produce import ProduceApi
from broker.api.producers import ProducersApi
from broker.api.quotas import QuotasApi
from broker.api.reassignments import ReassignmentsApi
from broker.api.route import Route
from broker.api.table import Family, join
from broker.api.telemetry import TelemetryApi
from broker.api.topics import TopicsApi
from broker.api.transaction_admin import TransactionAdminApi
from broker.api.transactions import TransactionsApi
from broker.api.versions import VersionsApi
from protocol.api_keys import CONTROLLER_ONLY, ApiKey

FAMILIES: tuple[type[Family], ...] = (
    ProduceApi,
    FetchApi,
    OffsetsApi,
    DeleteRecordsApi,
    ClusterApi,
    TopicsApi,
    ConfigsApi,
    AlterConfigsApi,
    ReassignmentsApi,
    ElectionsApi,
    ClusterAdminApi,
    CredentialsApi,
    AclsApi,
    QuotasApi,
    TelemetryApi,
    LogDirsApi,
    AlterLogDirsApi,
    ProducersApi,
    TransactionsApi,
    TransactionAdminApi,
    PartitionTransactionsApi,
    GroupFindApi,
    GroupClassicApi,
    GroupConsumerApi,
    GroupOffsetsApi,
    GroupTxnOffsetsApi,
    OffsetDeleteApi,
    GroupAdminApi,
    VersionsApi,
)
"""What `broker.server` makes instances of; a test holds this list against what a running broker advertises."""

_INTRODUCTION = """\
# APIs

Generated from the handler table by `make docs`; do not edit.

A version is served as Apache Kafka 4.3 serves it, or it is not advertised. A request outside these ranges closes the
connection, but for ApiVersions, which then answers in its oldest layout.

| Key | API | Versions | Handler |
|---:|---|---|---|
"""

_NOT_SERVED = """
## Not served yet

Declared in `protocol/messages/`, without a handler: {}.
"""


def documented_routes() -> dict[ApiKey, Route]:
    """Join the routes of every family."""
    return join(family.__new__(family) for family in FAMILIES)


def render_apis() -> str:
    """Render docs/apis.md."""
    routes = documented_routes()
    rows = "".join(_row(route) for route in routes.values())
    missing = [title_of(key) for key in ApiKey if key not in routes and key not in CONTROLLER_ONLY]
    return _INTRODUCTION + rows + _NOT_SERVED.format(", ".join(missing))


def title_of(key: ApiKey) -> str:
    """Write an API's name as Kafka's documents do."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def _row(route: Route) -> str:
    versions = f"{route.min_version} to {route.max_version}"
    if route.served_from > route.min_version:
        versions += f"; below {route.served_from} advertised for old clients, refused when used"
    module = route.handler.__module__.replace(".", "/")
    return f"| {int(route.api_key)} | {title_of(route.api_key)} | {versions} | `{module}.py` |\n"


if __name__ == "__main__":
    sys.stdout.write(render_apis())
