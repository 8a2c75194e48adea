"""Change topics over the wire: configs, log starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.harness.raw import RawClient
from tests.harness.wire import Struct

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
# What DescribeConfigs calls the origin of a value.
TOPIC_SOURCE, STATIC_BROKER_SOURCE, DEFAULT_SOURCE = 1, 4, 5


def alter_configs(
    client: RawClient, name: str, configs: Mapping[str, str | None], *, kind: int = TOPIC, validate_only: bool = False
) -> Struct:
    """Replace all configs of a resource; return its part of the answer."""
    rows = [{"name": key, "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return client.request("alter_configs", 2, resources=[resource], validate_only=validate_only).responses[0]


def change_configs(
    client: RawClient,
    name: str,
    changes: Sequence[tuple[str, int, str | None]],
    *,
    kind: int = TOPIC,
    validate_only: bool = False,
) -> Struct:
    """Apply (key, operation, value) changes incrementally; return the resource's part of the answer."""
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    answer = client.request("incremental_alter_configs", 1, resources=[resource], validate_only=validate_only)
    return answer.responses[0]


def set_configs(client: RawClient, topic: str, **configs: str) -> None:
    """Set configs of a topic (dots written as underscores) and insist on success."""
    changes = [(key.replace("_", "."), SET, value) for key, value in configs.items()]
    result = change_configs(client, topic, changes)
    assert result.error_code == 0, result


def described(client: RawClient, name: str, *keys: str, kind: int = TOPIC) -> dict[str, tuple[str | None, int]]:
    """Return value and source of these configs."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    [result] = client.request("describe_configs", 4, resources=[resource], include_synonyms=False).results
    assert result.error_code == 0, result
    return {row.name: (row.value, row.config_source) for row in result.configs}


def delete_records(
    client: RawClient, topic: str, offset: int, partition: int = 0, *, timeout_ms: int = 15000
) -> Struct:
    """Ask for a log start; return the partition's part of the answer."""
    row = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    [answer] = client.request("delete_records", 2, topics=[row], timeout_ms=timeout_ms).topics
    [result] = answer.partitions
    assert result.partition_index == partition
    return result
