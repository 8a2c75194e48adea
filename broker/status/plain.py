"""The same model for scripts: JSON with the names of its fields."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from broker.status.listing import ROWS_PER_PAGE, top_groups, top_topics
from broker.status.model import Health, Overview


def overview_part(status: Overview) -> Overview:
    """Leave of the topics and groups what a page of a list has; `/topics` and `/groups` have the others."""
    inventory = status.inventory
    return status._replace(
        inventory=inventory._replace(
            topics=top_topics(inventory.topics, ROWS_PER_PAGE), groups=top_groups(inventory.groups, ROWS_PER_PAGE)
        )
    )


def encoded(value: Any) -> bytes:
    """Write a value of the model."""
    return json.dumps(_plain(value), ensure_ascii=False, indent=1).encode() + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Health):
        return {"is_ready": value.is_ready, "level": value.level.value, **_fields(value)}
    if isinstance(value, tuple):
        return _fields(value) if hasattr(value, "_asdict") else [_plain(one) for one in value]
    return value.value if isinstance(value, Enum) else value


def _fields(value: Any) -> dict[str, Any]:
    return {name: _plain(field) for name, field in zip(value._fields, value, strict=True)}
