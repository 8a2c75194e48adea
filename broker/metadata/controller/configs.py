"""AlterConfigs and IncrementalAlterConfigs as commands, and the configs of a creation: checked, then records; pure.

A resource changes wholly or not at all, and stands alone: one that is refused does not hold up its neighbours. The
order of checks is Kafka's: duplicates, the shape of the change, values, then existence.

Source: ConfigAdminManager.preprocess, ConfigurationControlManager, ControllerConfigurationValidator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from broker.metadata.controller.exclusions import DeliveryExclusions
from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Plan
from broker.metadata.errors import (
    InvalidConfiguration,
    InvalidRequest,
    MetadataError,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from broker.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    ConfigResource,
)
from broker.metadata.names import check_topic_name
from config.broker_changes import checked_broker_configs, usable_layer
from config.errors import InvalidConfig
from config.key import ConfigKey, ConfigType
from config.keys import GROUP_KEYS, TOPIC_KEYS, find_broker_key
from config.operations import Operation, changed_list
from config.overrides import checked_topic_configs
from config.resolve import Resolver
from config.resource_changes import UnknownSetting, checked_client_metrics, checked_group_configs
from protocol.stored.cluster import ConfigRecord

_NO_LIST = "Can't {operation} to key {key} because its type is not LIST."


class ConfigChange(NamedTuple):
    """What is to happen to one key."""

    name: str
    value: str | None
    operation: int = Operation.SET
    """As it came: a number that is no operation is refused here."""


class ResourceChange(NamedTuple):
    """What is to happen to one resource."""

    resource: ConfigResource
    changes: tuple[ConfigChange, ...]
    replaces_all: bool = False
    """Keys that are not named lose their value: the older of the two requests."""


class AlterResult(NamedTuple):
    """One entry of an alteration: changed, or why not."""

    resource: ConfigResource
    error: MetadataError | None = None


def plan_alter_configs(
    image: ClusterImage, entries: Sequence[ResourceChange], resolver: Resolver, node_id: int
) -> Plan[list[AlterResult]]:
    """Plan an alteration above what the resolver supplies under `image`. One result an entry, in request order.

    Raises PolicyViolation when the entries ask for more than one command may do.
    """
    counts = Counter(entry.resource for entry in entries)
    exclusions = DeliveryExclusions(image, resolver)
    records: list[object] = []
    results: list[AlterResult] = []
    for entry in entries:
        try:
            if counts[entry.resource] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            records.extend(_resource_records(image, entry, resolver, node_id, exclusions))
        except MetadataError as refusal:
            results.append(AlterResult(entry.resource, refusal))
        else:
            results.append(AlterResult(entry.resource))
    if len(records) > MAX_RECORDS_PER_COMMAND:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
    return Plan(records, results)


def checked_configs(configs: Iterable[tuple[str, str | None]], resolver: Resolver) -> dict[str, str]:
    """Return the overrides of a new topic as they are to be stored. Raises InvalidConfiguration."""
    try:
        return checked_topic_configs(dict(configs), resolver)
    except InvalidConfig as invalid:
        raise InvalidConfiguration(str(invalid)) from invalid


def topic_config_records(topic: str, configs: Mapping[str, str]) -> list[ConfigRecord]:
    """Return one record an override."""
    return list(_records((TOPIC_RESOURCE, topic), configs))


def _resource_records(
    image: ClusterImage, entry: ResourceChange, resolver: Resolver, node_id: int, exclusions: DeliveryExclusions
) -> Iterator[ConfigRecord]:
    _check_shape(entry)
    kind, name = entry.resource
    before = image.configs.get(entry.resource, {})
    if kind == TOPIC_RESOURCE:
        if not name:
            raise InvalidRequest("Default topic resources are not allowed.")
        check_topic_name(name)
        after = _topic_values(entry, before, exclusions.resolver)
        if name not in image.topics_by_name:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        exclusions.take_topic(name, after)
    elif kind == BROKER_RESOURCE:
        _check_broker_name(name, node_id)
        after = _broker_values(entry, before, resolver)
        exclusions.take_broker(name, after)
    elif kind == GROUP_RESOURCE:
        if not name:
            raise InvalidRequest("Default group resources are not allowed.")
        after = _group_values(entry, before, resolver)
    elif kind == CLIENT_METRICS_RESOURCE:
        if not name:
            raise InvalidRequest("Subscription name can't be empty")
        after = _client_metrics_values(entry, before)
    else:
        raise InvalidRequest(f"Unknown resource type {kind}")
    changed: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    changed |= {key: None for key in before if key not in after}
    return _records(entry.resource, changed)


def _check_shape(entry: ResourceChange) -> None:
    if len({change.name for change in entry.changes}) < len(entry.changes):
        raise InvalidRequest("Error due to duplicate config keys")
    nulls = [change.name for change in entry.changes if change.value is None and change.operation != Operation.DELETE]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")
    for change in entry.changes:
        if change.operation not in Operation.__members__.values():
            raise InvalidRequest(f"Unknown operations type {change.operation}")


def _check_broker_name(name: str, node_id: int) -> None:
    if not name:
        return
    try:
        broker_id = int(name)
    except ValueError:
        raise InvalidRequest(f"Node id must be an integer, but it is: {name}") from None
    if broker_id != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}, but received {name}")


def _topic_values(entry: ResourceChange, before: Mapping[str, str], resolver: Resolver) -> dict[str, str]:
    values = _applied(entry, before, TOPIC_KEYS.get, _NO_LIST)
    try:
        return checked_topic_configs(values, resolver, before)
    except InvalidConfig as invalid:
        raise InvalidConfiguration(str(invalid)) from invalid


def _group_values(entry: ResourceChange, before: Mapping[str, str], resolver: Resolver) -> dict[str, str]:
    try:
        return checked_group_configs(_applied(entry, before, GROUP_KEYS.get, _NO_LIST), resolver)
    except InvalidConfig as invalid:
        raise InvalidConfiguration(str(invalid)) from invalid


def _client_metrics_values(entry: ResourceChange, before: Mapping[str, str]) -> dict[str, str]:
    # The reference's controller does not know the types of these keys, so nothing can be appended to its lists.
    values = _applied(entry, before, lambda _: None, _NO_LIST)
    try:
        return checked_client_metrics(values)
    except UnknownSetting as unknown:
        raise InvalidRequest(str(unknown)) from unknown
    except InvalidConfig as invalid:
        raise InvalidConfiguration(str(invalid)) from invalid


def _broker_values(entry: ResourceChange, before: Mapping[str, str], resolver: Resolver) -> dict[str, str]:
    is_default = not entry.resource[1]
    usable = usable_layer(before, is_default=is_default)
    # What counts no more neither hinders a change nor is lost by one that does not name it.
    named = {change.name for change in entry.changes}
    kept = {} if entry.replaces_all else {key: before[key] for key in before if key not in usable and key not in named}
    values = _applied(entry, usable, find_broker_key, "Config value {verb} is not allowed for config key: {key}")
    try:
        return kept | checked_broker_configs(values, resolver, is_default=is_default)
    except InvalidConfig as invalid:
        # The reference answers a broker with INVALID_REQUEST where it answers a topic with INVALID_CONFIG.
        raise InvalidRequest(str(invalid)) from invalid


def _applied(
    entry: ResourceChange,
    before: Mapping[str, str],
    find_row: Callable[[str], ConfigKey | None],
    no_list: str,
) -> dict[str, str]:
    """Return the resource's values after the change, not checked yet."""
    values = {} if entry.replaces_all else dict(before)
    for change in entry.changes:
        operation = Operation(change.operation)
        if operation is Operation.DELETE:
            values.pop(change.name, None)
            continue
        text = change.value or ""
        if operation is not Operation.SET:
            row = find_row(change.name)
            if row is None or row.type is not ConfigType.LIST:
                raise InvalidConfiguration(
                    no_list.format(operation=operation.name, verb=operation.name.lower(), key=change.name)
                )
            text = changed_list(row, values.get(change.name), operation, text)
        values[change.name] = text
    return values


def _records(resource: ConfigResource, values: Mapping[str, str | None]) -> Iterator[ConfigRecord]:
    kind, name = resource
    for key, value in values.items():
        yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
