"""Topic configs of a creation: checked, then records.

Source: ConfigurationControlManager.incrementalAlterConfig for new topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.metadata.errors import InvalidTopicConfig
from broker.metadata.image import TOPIC_RESOURCE
from config.errors import InvalidConfig
from protocol.stored.cluster import ConfigRecord

ConfigCheck = Callable[[Mapping[str, str | None]], None]
"""Raises InvalidConfig for a topic config that does not exist or has a bad value."""


def checked_configs(configs: Iterable[tuple[str, str | None]], check: ConfigCheck) -> dict[str, str]:
    """Return the overrides of a new topic. Raises InvalidTopicConfig."""
    overrides = dict(configs)
    try:
        check(overrides)
    except InvalidConfig as invalid:
        raise InvalidTopicConfig(str(invalid)) from invalid
    return {key: value for key, value in overrides.items() if value is not None}


def topic_config_records(topic: str, configs: Mapping[str, str]) -> list[ConfigRecord]:
    """Return one record an override."""
    return [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=key, value=value)
        for key, value in configs.items()
    ]
