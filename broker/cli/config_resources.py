"""Configs of topics, brokers, groups, client metrics and loggers: what `odradek configs` does there."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, NamedTuple

from broker.cli.configs import BROKERS, CLIENT_METRICS, DEFAULT_NAME, GROUPS, LOGGERS, TOPICS, Entity
from broker.cli.errors import CommandError
from broker.cli.output import print_json
from broker.client.client import Client
from broker.client.errors import UnsupportedApi, check, only
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_groups import ListGroupsRequest

SET, DELETE = 0, 1
SOURCES = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
)
"""The names by which Kafka's tool prints the sources, by their number."""


class Kind(NamedTuple):
    """How a type of entity travels, and which source its own values have; None where all values are its own."""

    resource_type: int
    source: int | None


KINDS = {
    TOPICS: Kind(2, 1),
    BROKERS: Kind(4, 2),
    LOGGERS: Kind(8, None),
    CLIENT_METRICS: Kind(16, 7),
    GROUPS: Kind(32, 8),
}
DEFAULT_BROKER_SOURCE = 3


def describe(client: Client, entities: list[Entity], options: Namespace) -> None:
    """Print the configs of one entity, or of all of its type."""
    [entity] = entities
    known = _all_of(client, entity.type)
    names = known if entity.name is None else [entity.name]
    shown = []
    for name in names:
        if name not in known and name != DEFAULT_NAME:
            if not options.json:
                print(f"The {entity.singular} '{name}' doesn't exist and doesn't have dynamic config.")
            continue
        rows = _configs(client, Entity(entity.type, name), options.all)
        if options.json:
            shown.append(_as_json(entity.type, name, rows))
        else:
            _print(Entity(entity.type, name), rows, options.all)
    if options.json:
        print_json({"entities": shown})


def alter(client: Client, entities: list[Entity], added: dict[str, str], deleted: list[str]) -> None:
    """Set and delete configs of one entity, all or none."""
    [entity] = entities
    assert entity.name is not None, "checked with the options"
    if entity.type == LOGGERS:
        known = {row.name for row in _configs(client, entity, is_all=True)}
        unknown = [name for name in (*deleted, *added) if name not in known]
        if unknown:
            raise CommandError(f"Invalid broker logger(s): {','.join(unknown)}")
    changes = [AlterableConfig(name=name, config_operation=SET, value=value) for name, value in added.items()]
    changes += [AlterableConfig(name=name, config_operation=DELETE, value=None) for name in deleted]
    resource = AlterConfigsResource(
        resource_type=KINDS[entity.type].resource_type, resource_name=entity.name, configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = client.ask_retrying(
        request,
        broker=_whom(entity) or client.controller(),
        codes=lambda response: [only(response.responses).error_code],
    )
    [row] = response.responses
    check(row.error_code, row.error_message)


def _whom(entity: Entity) -> int | None:
    """Return the broker that has to be asked, if it is one of them: it knows its static values and its loggers."""
    return int(entity.name) if entity.type in (BROKERS, LOGGERS) and entity.name else None


def _configs(client: Client, entity: Entity, is_all: bool) -> list[Any]:
    """Return the configs of an entity, sorted by key; only its own, if not all."""
    kind = KINDS[entity.type]
    resource = DescribeConfigsResource(
        resource_type=kind.resource_type, resource_name=entity.name or "", configuration_keys=None
    )
    response = client.ask_retrying(
        DescribeConfigsRequest(resources=[resource], include_synonyms=True),
        broker=_whom(entity),
        codes=lambda response: [only(response.results).error_code],
    )
    result: DescribeConfigsResult = only(response.results)
    check(result.error_code, result.error_message)
    source = DEFAULT_BROKER_SOURCE if entity.type == BROKERS and entity.name == DEFAULT_NAME else kind.source
    rows = [row for row in result.configs if is_all or source is None or row.config_source == source]
    return sorted(rows, key=lambda row: row.name)


def _all_of(client: Client, type_: str) -> list[str]:
    """Return the names that exist of a type; the default of brokers comes last."""
    if type_ == TOPICS:
        return sorted(client.metadata().topics)
    if type_ in (BROKERS, LOGGERS):
        return [*map(str, sorted(client.metadata([]).brokers)), DEFAULT_NAME]
    names = _configured(client, KINDS[type_].resource_type)
    if type_ == GROUPS:
        response = client.ask_retrying(ListGroupsRequest())
        check(response.error_code)
        names |= {group.group_id for group in response.groups}
    return sorted(names)


def _configured(client: Client, resource_type: int) -> set[str]:
    """Return the names that have configs; older brokers only tell of subscriptions to metrics."""
    try:
        response = client.ask_retrying(ListConfigResourcesRequest(resource_types=[resource_type]))
    except UnsupportedApi:
        return set()
    check(response.error_code)
    return {row.resource_name for row in response.config_resources if row.resource_type == resource_type}


def _print(entity: Entity, rows: list[Any], is_all: bool) -> None:
    if entity.name == DEFAULT_NAME:
        print(f"Default configs for {entity.type} in the cluster are:")
    else:
        print(f"{'All' if is_all else 'Dynamic'} configs for {entity.singular} {entity.name} are:")
    for row in rows:
        synonyms = ", ".join(
            f"{_source(synonym.source)}:{synonym.name}={_text(synonym.value)}" for synonym in row.synonyms
        )
        sensitive = str(row.is_sensitive).lower()
        print(f"  {row.name}={_text(row.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _source(number: int) -> str:
    return SOURCES[number] if 0 <= number < len(SOURCES) else SOURCES[0]


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _as_json(type_: str, name: str, rows: list[Any]) -> dict[str, Any]:
    return {
        "type": type_,
        "name": name,
        "configs": [
            {
                "name": row.name,
                "value": row.value,
                "source": _source(row.config_source),
                "sensitive": row.is_sensitive,
                "readOnly": row.read_only,
                "synonyms": [
                    {"name": synonym.name, "value": synonym.value, "source": _source(synonym.source)}
                    for synonym in row.synonyms
                ],
            }
            for row in rows
        ],
    }
