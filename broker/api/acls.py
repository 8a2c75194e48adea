"""DescribeAcls (key 29), CreateAcls (30), DeleteAcls (31). Served: 1 to 3.

- v1 pattern types; v2 flexible; v3 users as resources.
- Without an authorizer (`authorizer.class.name`) every request is answered SECURITY_DISABLED. With one, rules are kept
  and listed; none is enforced yet, which a warning at the start says.
- Differences from the reference: a number that means nothing, 0 included, is an invalid request where the reference
  closes the connection or fails.

Source: KIP-140, KIP-290; AclApis.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.access import Acl
from broker.metadata.controller.acls import (
    AclFilter,
    DeleteResult,
    matching_acls,
    plan_create_acls,
    plan_delete_acls,
)
from broker.metadata.controller.run import Controller
from broker.metadata.errors import MetadataError, SecurityDisabled
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


class AclsApi:
    """Keeps the rules of who may do what."""

    def __init__(
        self,
        controller: Controller,
        image: Callable[[], ClusterImage],
        new_id: Callable[[], bytes],
        *,
        has_authorizer: bool,
    ) -> None:
        self._controller = controller
        self._image = image
        self._new_id = new_id
        self._has_authorizer = has_authorizer

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.DESCRIBE_ACLS, 1, 3, self.describe_acls),
            Route(ApiKey.CREATE_ACLS, 1, 3, self.create_acls),
            Route(ApiKey.DELETE_ACLS, 1, 3, self.delete_acls),
        )

    async def describe_acls(self, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
        """List the rules that a filter matches, by resource."""
        if not self._has_authorizer:
            disabled = SecurityDisabled("No Authorizer is configured on the broker")
            return DescribeAclsResponse(error_code=code_of(disabled, context), error_message=str(disabled))
        wanted = AclFilter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
        resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
        for acl in matching_acls(self._image(), wanted):
            kind, name, pattern = acl[:3]
            resource = resources.setdefault(
                (kind, name, pattern),
                DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern),
            )
            resource.acls.append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
            )
        return DescribeAclsResponse(error_message=None, resources=list(resources.values()))

    async def create_acls(self, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
        """Create rules; each stands alone."""
        acls = [
            Acl(
                one.resource_type,
                one.resource_name,
                one.resource_pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission_type,
            )
            for one in request.creations
        ]
        results: list[MetadataError | None]
        try:
            self._ensure_authorizer()
            results = await self._controller.execute(lambda image: plan_create_acls(image, acls, self._new_id))
        except MetadataError as refusal:
            results = [refusal] * len(acls)
        return CreateAclsResponse(results=[_created(error, context) for error in results])

    async def delete_acls(self, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
        """Delete the rules that filters match."""
        filters = [
            AclFilter(
                one.resource_type_filter,
                one.resource_name_filter,
                one.pattern_type_filter,
                one.principal_filter,
                one.host_filter,
                one.operation,
                one.permission_type,
            )
            for one in request.filters
        ]
        try:
            self._ensure_authorizer()
            results = await self._controller.execute(lambda image: plan_delete_acls(image, filters))
        except MetadataError as refusal:
            results = [DeleteResult(error=refusal)] * len(filters)
        return DeleteAclsResponse(filter_results=[_deleted(result, context) for result in results])

    def _ensure_authorizer(self) -> None:
        if not self._has_authorizer:
            raise SecurityDisabled("No Authorizer is configured.")


def _created(error: MetadataError | None, context: RequestContext) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_message=None)
    return AclCreationResult(error_code=code_of(error, context), error_message=str(error))


def _deleted(result: DeleteResult, context: RequestContext) -> DeleteAclsFilterResult:
    if result.error is not None:
        return DeleteAclsFilterResult(error_code=code_of(result.error, context), error_message=str(result.error))
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in result.deleted
        ],
    )
