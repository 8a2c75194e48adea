"""One module per API, named as the API in snake case, with its request, its response and their structs.

`VERSIONS` is what the schemas define; what is served of it, the routes say. `REQUESTS` and `RESPONSES` give
the class of a key and import its module when it is first asked for, so a daemon pays for the APIs it serves only.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from protocol.api_keys import ApiKey
from protocol.message import NEVER_FLEXIBLE


class Versions(NamedTuple):
    """The versions of one API, last one included, and the first that is flexible."""

    first: int
    last: int
    flexible_since: int


VERSIONS: dict[ApiKey, Versions] = {
    ApiKey.PRODUCE: Versions(3, 13, 9),
    ApiKey.FETCH: Versions(4, 18, 12),
    ApiKey.LIST_OFFSETS: Versions(1, 11, 6),
    ApiKey.METADATA: Versions(0, 13, 9),
    ApiKey.OFFSET_COMMIT: Versions(2, 10, 8),
    ApiKey.OFFSET_FETCH: Versions(1, 10, 6),
    ApiKey.FIND_COORDINATOR: Versions(0, 6, 3),
    ApiKey.JOIN_GROUP: Versions(0, 9, 6),
    ApiKey.HEARTBEAT: Versions(0, 4, 4),
    ApiKey.LEAVE_GROUP: Versions(0, 5, 4),
    ApiKey.SYNC_GROUP: Versions(0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: Versions(0, 6, 5),
    ApiKey.LIST_GROUPS: Versions(0, 5, 3),
    ApiKey.SASL_HANDSHAKE: Versions(0, 1, NEVER_FLEXIBLE),
    ApiKey.API_VERSIONS: Versions(0, 4, 3),
    ApiKey.CREATE_TOPICS: Versions(2, 7, 5),
    ApiKey.DELETE_TOPICS: Versions(1, 6, 4),
    ApiKey.DELETE_RECORDS: Versions(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: Versions(0, 6, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Versions(2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: Versions(0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: Versions(0, 4, 3),
    ApiKey.END_TXN: Versions(0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: Versions(1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: Versions(0, 5, 3),
    ApiKey.DESCRIBE_ACLS: Versions(1, 3, 2),
    ApiKey.CREATE_ACLS: Versions(1, 3, 2),
    ApiKey.DELETE_ACLS: Versions(1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: Versions(1, 4, 4),
    ApiKey.ALTER_CONFIGS: Versions(0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Versions(1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Versions(1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: Versions(0, 2, 2),
    ApiKey.CREATE_PARTITIONS: Versions(0, 3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: Versions(1, 3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: Versions(1, 2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Versions(1, 2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Versions(1, 3, 2),
    ApiKey.DELETE_GROUPS: Versions(0, 2, 2),
    ApiKey.ELECT_LEADERS: Versions(0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Versions(0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Versions(0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Versions(0, 0, 0),
    ApiKey.OFFSET_DELETE: Versions(0, 0, NEVER_FLEXIBLE),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Versions(0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: Versions(0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Versions(0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Versions(0, 0, 0),
    ApiKey.DESCRIBE_QUORUM: Versions(0, 2, 0),
    ApiKey.UPDATE_FEATURES: Versions(0, 2, 0),
    ApiKey.DESCRIBE_CLUSTER: Versions(0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: Versions(0, 0, 0),
    ApiKey.UNREGISTER_BROKER: Versions(0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Versions(0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: Versions(0, 2, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Versions(0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Versions(0, 1, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Versions(0, 0, 0),
    ApiKey.PUSH_TELEMETRY: Versions(0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: Versions(0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Versions(0, 0, 0),
}


class _LazyClasses(Mapping[ApiKey, Any]):
    """ApiKey to message class; the module of a key is imported when the key is first looked up."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._loaded: dict[ApiKey, Any] = {}

    def __getitem__(self, key: ApiKey) -> Any:
        """Return the class of a key. Raises KeyError for a number that is no API."""
        loaded = self._loaded.get(key)
        if loaded is None:
            words = ApiKey(key).name.lower() if key in VERSIONS else None
            if words is None:
                raise KeyError(key)
            class_name = "".join(word.capitalize() for word in words.split("_")) + self._suffix
            loaded = self._loaded[key] = getattr(import_module(f"{__name__}.{words}"), class_name)
        return loaded

    def __iter__(self) -> Iterator[ApiKey]:
        return iter(VERSIONS)

    def __len__(self) -> int:
        return len(VERSIONS)


REQUESTS: Mapping[ApiKey, Any] = _LazyClasses("Request")
RESPONSES: Mapping[ApiKey, Any] = _LazyClasses("Response")
