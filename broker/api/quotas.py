"""DescribeClientQuotas (key 48) and AlterClientQuotas (49). Served: 0 to 1.

- v1 flexible.
- Differences from the reference: of an entity or a key that stands twice in a request nothing is changed, where the
  reference refuses the second and carries out the first; a quota that is not a number is refused.

Source: KIP-546; ClientQuotasImage, ClientQuotaControlManager.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Iterable

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.access import QuotaEntity, quota_entity
from broker.metadata.controller.quotas import (
    IP,
    QuotaAlteration,
    QuotaChange,
    QuotaFilter,
    QuotaResult,
    describe_quotas,
    plan_alter_quotas,
)
from broker.metadata.controller.run import Controller
from broker.metadata.errors import MetadataError
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


class QuotasApi:
    """Keeps the quotas of clients."""

    def __init__(self, controller: Controller, image: Callable[[], ClusterImage]) -> None:
        self._controller = controller
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, self.describe_client_quotas),
            Route(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, self.alter_client_quotas),
        )

    async def describe_client_quotas(
        self, request: DescribeClientQuotasRequest, context: RequestContext
    ) -> DescribeClientQuotasResponse:
        """List the entities that a filter matches, with their quotas."""
        filters = [QuotaFilter(one.entity_type, one.match_type, one.match) for one in request.components]
        try:
            entries = [
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
                )
                for entity, values in describe_quotas(self._image(), filters, strict=request.strict)
            ]
        except MetadataError as refusal:
            return DescribeClientQuotasResponse(
                error_code=code_of(refusal, context), error_message=str(refusal), entries=None
            )
        return DescribeClientQuotasResponse(error_message=None, entries=entries)

    async def alter_client_quotas(
        self, request: AlterClientQuotasRequest, context: RequestContext
    ) -> AlterClientQuotasResponse:
        """Set and remove quotas; each entity stands alone."""
        alterations = [
            QuotaAlteration(
                quota_entity({part.entity_type: part.entity_name for part in entry.entity}),
                tuple(QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops),
            )
            for entry in request.entries
        ]
        unknown_hosts = await _unknown_hosts(one.entity for one in alterations)
        try:
            results = await self._controller.execute(
                lambda image: plan_alter_quotas(image, alterations, unknown_hosts),
                validate_only=request.validate_only,
            )
        except MetadataError as refusal:
            results = [QuotaResult(entity, refusal) for entity in dict.fromkeys(one.entity for one in alterations)]
        return AlterClientQuotasResponse(entries=[_told(result, context) for result in results])


def _told(result: QuotaResult, context: RequestContext) -> ResponseEntryData:
    told = ResponseEntryData(
        error_message=None,
        entity=[ResponseEntityData(entity_type=kind, entity_name=name) for kind, name in result.entity],
    )
    if result.error is not None:
        told.error_code, told.error_message = code_of(result.error, context), str(result.error)
    return told


async def _unknown_hosts(entities: Iterable[QuotaEntity]) -> set[str]:
    """Return those names of addresses that stand for none."""
    names = {name for entity in entities for kind, name in entity if kind == IP and name}
    return {name for name in names if not _is_address(name) and not await _is_resolvable(name)}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _is_resolvable(name: str) -> bool:
    try:
        await asyncio.get_running_loop().getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True
