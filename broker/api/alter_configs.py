"""AlterConfigs (key 33), served: 0 to 2; IncrementalAlterConfigs (key 44), served: 0 to 1.

- AlterConfigs v2 and IncrementalAlterConfigs v1 are flexible; nothing else changed.
- AlterConfigs replaces all values of a resource; what it does not name is inherited again.
- A change is on disk, visible in DescribeConfigs and in force when its answer is sent.
- Differences from the reference: broker loggers have no names, so every one is unknown; an operation that does not
  exist is an invalid request everywhere, while the reference fails on topics.

Source: ConfigAdminManager, RuntimeLoggerManager.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.api.configs import BROKER_LOGGER_RESOURCE
from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.controller.configs import AlterResult, ConfigChange, ResourceChange
from broker.metadata.controller.run import Controller
from broker.metadata.errors import InvalidConfiguration, InvalidRequest, MetadataError
from config.operations import Operation
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import alter_configs, incremental_alter_configs
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse


class AlterConfigsApi:
    """Changes configuration."""

    def __init__(self, controller: Controller, node_id: int) -> None:
        self._controller = controller
        self._node_id = node_id

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.ALTER_CONFIGS, 0, 2, self.alter_configs),
            Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, self.incremental_alter_configs),
        )

    async def alter_configs(self, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
        """Replace all values of each resource."""
        entries = [
            ResourceChange(
                (resource.resource_type, resource.resource_name),
                tuple(ConfigChange(config.name, config.value) for config in resource.configs),
                replaces_all=True,
            )
            for resource in request.resources
        ]
        responses = []
        for result in await self._alter(entries, validate_only=request.validate_only):
            code, message = _told(result.error, context)
            kind, name = result.resource
            responses.append(
                alter_configs.AlterConfigsResourceResponse(
                    error_code=code, error_message=message, resource_type=kind, resource_name=name
                )
            )
        return AlterConfigsResponse(responses=responses)

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        """Change single values of each resource."""
        entries = [
            ResourceChange(
                (resource.resource_type, resource.resource_name),
                tuple(ConfigChange(config.name, config.value, config.config_operation) for config in resource.configs),
            )
            for resource in request.resources
        ]
        responses = []
        for result in await self._alter(entries, validate_only=request.validate_only):
            code, message = _told(result.error, context)
            kind, name = result.resource
            responses.append(
                incremental_alter_configs.AlterConfigsResourceResponse(
                    error_code=code, error_message=message, resource_type=kind, resource_name=name
                )
            )
        return IncrementalAlterConfigsResponse(responses=responses)

    async def _alter(self, entries: Sequence[ResourceChange], *, validate_only: bool) -> list[AlterResult]:
        """Let the controller change what the metadata holds, and answer for the rest; in request order."""
        stored = [entry for entry in entries if self._refusal(entry) is None]
        try:
            results = iter(await self._controller.alter_configs(stored, validate_only=validate_only))
        except MetadataError as refusal:
            return [AlterResult(entry.resource, refusal) for entry in entries]
        answers = []
        for entry in entries:
            refused = self._refusal(entry)
            answers.append(next(results) if refused is None else AlterResult(entry.resource, refused))
        return answers

    def _refusal(self, entry: ResourceChange) -> MetadataError | None:
        """Return why a resource never reaches the controller, None when it does."""
        kind, name = entry.resource
        if kind == BROKER_LOGGER_RESOURCE and not entry.replaces_all:
            return self._logger_refusal(name, entry.changes)
        return None

    def _logger_refusal(self, name: str, changes: Sequence[ConfigChange]) -> MetadataError:
        try:
            node_id = int(name)
        except ValueError:
            return InvalidRequest(f"Node id must be an integer, but it is: {name}")
        if node_id != self._node_id:
            return InvalidRequest(f"Unexpected node id. Expected {self._node_id}, but received {name}")
        for change in changes:
            if change.operation in (Operation.APPEND, Operation.SUBTRACT):
                operation = Operation(change.operation).name
                return InvalidRequest(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        names = ", ".join(change.name for change in changes[:1]) or "''"
        return InvalidConfiguration(f"Logger {names} does not exist!")


def _told(error: MetadataError | None, context: RequestContext) -> tuple[ErrorCode, str | None]:
    if error is None:
        return ErrorCode.NONE, None
    return code_of(error, context), str(error)
