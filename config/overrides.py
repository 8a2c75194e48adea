"""Overrides of topics: which may stand together, and as which text they are stored.

Order of the checks: null values, unknown names, length, each value alone, then values that exclude each other under
what the topic inherits. Messages are Kafka's; the caller answers INVALID_CONFIG (40). No remote tier exists here, but
its keys are checked all the same, as a broker with or without `remote.log.storage.system.enable` does it.

Source: LogConfig.validate, ControllerConfigurationValidator, ConfigurationControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping

from config.errors import InvalidConfig, invalid_value
from config.keys import TOPIC_KEYS
from config.resolve import Resolver
from config.scheduling import check_delivery

VALUE_MAX_BYTES = 32_767
"""Longest value that a configuration record holds."""

INHERIT_TOTAL_RETENTION = -2
"""A local retention of this value is the total one."""

_DISABLED_WITH_REMOTE_DATA = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and "
    "turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable "
    "remote storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)


def checked_topic_configs(
    overrides: Mapping[str, str | None], resolver: Resolver, existing: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return all overrides of a topic as they are to be stored, `existing` being those it has so far.

    Raises InvalidConfig unless a topic may have them above what the resolver supplies.
    """
    values = canonical_topic_configs(overrides)
    check_compaction_lags(
        resolver.topic_value("min.compaction.lag.ms", values), resolver.topic_value("max.compaction.lag.ms", values)
    )
    check_delivery(values, resolver)
    was_remote = (existing or {}).get("remote.storage.enable", "").lower() == "true"
    if resolver.topic_value("remote.storage.enable", values):
        _check_remote_storage(values, resolver)
    elif was_remote and not resolver.topic_value("remote.log.delete.on.disable", values):
        raise InvalidConfig(_DISABLED_WITH_REMOTE_DATA)
    return values


def canonical_topic_configs(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Check each override alone and return all of them as they are to be stored."""
    nulls = [name for name, text in overrides.items() if text is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    for name in overrides:
        if name not in TOPIC_KEYS:
            raise InvalidConfig(f"Unknown topic config name: {name}")
    result = {}
    for name, text in overrides.items():
        if text is None:
            continue
        check_length(name, text)
        row = TOPIC_KEYS[name]
        row.parse(text)
        result[name] = row.canonical(text)
    return result


def check_length(name: str, text: str) -> None:
    """Raise InvalidConfig unless a configuration record can hold the value."""
    if len(text.encode()) > VALUE_MAX_BYTES:
        raise InvalidConfig(
            f"The configuration value of {name} cannot be added because it exceeds the maximum value size of "
            f"{VALUE_MAX_BYTES} bytes."
        )


def check_compaction_lags(shortest: int, longest: int) -> None:
    """Raise InvalidConfig unless a record may become compactable before it must."""
    if shortest > longest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )


def _check_remote_storage(values: Mapping[str, str], resolver: Resolver) -> None:
    if not resolver.get("remote.log.storage.system.enable"):
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if "compact" in resolver.topic_value("cleanup.policy", values):
        raise InvalidConfig(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    units = ("bytes", "ms")
    for unit in units:
        check_local_retention(
            f"local.retention.{unit}",
            resolver.topic_value(f"local.retention.{unit}", values),
            f"retention.{unit}",
            resolver.topic_value(f"retention.{unit}", values),
        )
    if resolver.topic_value("remote.log.copy.disable", values):
        for unit in units:
            local = resolver.topic_value(f"local.retention.{unit}", values)
            if local not in (INHERIT_TOTAL_RETENTION, resolver.topic_value(f"retention.{unit}", values)):
                raise InvalidConfig(
                    f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
                    f"`retention.{unit}` must be set to the identical value because there will be no more logs copied "
                    "to the remote storage."
                )


def check_local_retention(local_name: str, local: int, total_name: str, total: int) -> None:
    """Raise InvalidConfig if more would stay on the local disk than in total."""
    if total < 0 or local == INHERIT_TOTAL_RETENTION:
        return
    if local == -1:
        raise invalid_value(local_name, local, f"Value must not be -1 as {total_name} value is set as {total}.")
    if local > total:
        reason = f"Value must not be more than {total_name} property value: {total}"
        raise invalid_value(local_name, local, reason)
