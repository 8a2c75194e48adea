"""Client quotas over the wire: set, take away, and wait until they are in force."""

from __future__ import annotations

from collections.abc import Mapping

from tests.harness.raw import RawClient

Entity = Mapping[str, str | None]
"""Names by type; None is the default of the type."""


def set_quota(client: RawClient, entity: Entity, **values: float | None) -> None:
    """Set quotas of an entity, or take away those whose value is None."""
    answer = client.request(
        "alter_client_quotas",
        1,
        entries=[
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
                "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()],
            }
        ],
    )
    [entry] = answer.entries
    assert entry.error_code == 0, entry
