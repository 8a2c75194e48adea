"""Topic configs of a creation: checked, then records.

Source: ConfigurationControlManager.incrementalAlterConfig for new topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.metadata.errors import InvalidTopicConfig
from broker.metadata.image import TOPIC_RESOURCE
from config.dynamic import canonical_topic_configs, validate_topic_configs
from config.errors import InvalidConfig
from config.resolve import Resolver
from protocol.stored.cluster import ConfigRecord


def checked_configs(configs: Iterable[tuple[str, str | None]], resolver: Resolver) -> dict[str, str]:
    """Return the overrides of a new topic as they are to be stored. Raises InvalidTopicConfig."""
    overrides = dict(configs)
    try:
        validate_topic_configs(overrides, resolver)
        return canonical_topic_configs(overrides)
    except InvalidConfig as invalid:
        raise InvalidTopicConfig(str(invalid)) from invalid


def topic_config_records(topic: str, configs: Mapping[str, str]) -> list[ConfigRecord]:
    """Return one record an override."""
    return [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=key, value=value)
        for key, value in configs.items()
    ]
