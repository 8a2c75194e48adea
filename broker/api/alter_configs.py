"""AlterConfigs (key 33), served: 0 to 2; IncrementalAlterConfigs (key 44), served: 0 to 1.

- AlterConfigs v2 and IncrementalAlterConfigs v1 are flexible; nothing else changed.
- AlterConfigs replaces all values of a resource; what it does not name is inherited again.
- A change is on disk, visible in DescribeConfigs and in force when its answer is sent.
- Levels of loggers are this process's own: no record, and as configured again after a restart.
- Differences from the reference: an operation that does not exist is an invalid request everywhere, while the reference
  fails on topics.

Source: ConfigAdminManager, RuntimeLoggerManager.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from broker.api.configs import BROKER_LOGGER_RESOURCE
from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.controller.configs import AlterResult, ConfigChange, ResourceChange
from broker.metadata.controller.run import Controller
from broker.metadata.errors import InvalidConfiguration, InvalidRequest, MetadataError
from broker.runtime import loggers
from config.operations import Operation
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import alter_configs, incremental_alter_configs
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

logger = logging.getLogger(__name__)


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
        """Let the controller change what the metadata holds, and see to loggers; in request order."""
        stored = [entry for entry in entries if not _is_of_loggers(entry)]
        try:
            results = iter(await self._controller.alter_configs(stored, validate_only=validate_only))
        except MetadataError as refusal:
            return [AlterResult(entry.resource, refusal) for entry in entries]
        return [
            AlterResult(entry.resource, self._alter_loggers(entry, validate_only=validate_only))
            if _is_of_loggers(entry)
            else next(results)
            for entry in entries
        ]

    def _alter_loggers(self, entry: ResourceChange, *, validate_only: bool) -> MetadataError | None:
        """Change the levels of loggers, all or none; returns why none."""
        try:
            self._check_loggers(entry)
        except MetadataError as refusal:
            return refusal
        for change in () if validate_only else entry.changes:
            if change.operation == Operation.SET and change.value is not None:
                loggers.set_level(change.name, change.value)
            else:
                loggers.unset_level(change.name)
            logger.warning("log level changed logger=%s level=%s", change.name, loggers.levels()[change.name])
        return None

    def _check_loggers(self, entry: ResourceChange) -> None:
        _, name = entry.resource
        try:
            node_id = int(name)
        except ValueError:
            raise InvalidRequest(f"Node id must be an integer, but it is: {name}") from None
        if node_id != self._node_id:
            raise InvalidRequest(f"Unexpected node id. Expected {self._node_id}, but received {name}")
        for change in entry.changes:
            _check_logger(change)


def _is_of_loggers(entry: ResourceChange) -> bool:
    """Tell whether a change is for loggers; to replace all of them is refused with what the metadata cannot hold."""
    return entry.resource[0] == BROKER_LOGGER_RESOURCE and not entry.replaces_all


def _check_logger(change: ConfigChange) -> None:
    if change.operation in (Operation.APPEND, Operation.SUBTRACT):
        operation = Operation(change.operation).name
        raise InvalidRequest(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
    if change.operation not in (Operation.SET, Operation.DELETE):
        raise InvalidRequest(f"Unknown operation type {change.operation} is not allowed for the BROKER_LOGGER resource")
    if not loggers.exists(change.name):
        raise InvalidConfiguration(f"Logger {change.name} does not exist!")
    if change.operation == Operation.SET and change.value not in loggers.LEVELS:
        raise InvalidConfiguration(
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(loggers.LEVELS)}"
        )
    if change.operation == Operation.DELETE and change.name == loggers.ROOT:
        raise InvalidRequest("Removing the log level of the root logger is not allowed")


def _told(error: MetadataError | None, context: RequestContext) -> tuple[ErrorCode, str | None]:
    if error is None:
        return ErrorCode.NONE, None
    return code_of(error, context), str(error)
