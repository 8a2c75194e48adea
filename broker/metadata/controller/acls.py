"""ACLs: created and deleted as plans on an image, and listed; pure.

A rule that is there already is created once more with success and no record. Numbers are those of the protocol.

Source: AclControlManager, AclApis, AccessControlEntryFilter, ResourcePatternFilter; KIP-290.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.metadata.access import Acl, acl_record
from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Plan
from broker.metadata.errors import InvalidRequest, MetadataError, PolicyViolation
from broker.metadata.image import ClusterImage
from protocol.stored.cluster import RemoveAccessControlEntryRecord

ANY = 1
WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"


class ResourceType(IntEnum):
    """What a rule is about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a rule is meant; MATCH in a filter asks for all rules that apply to a name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a rule says."""

    ANY = 1
    DENY = 2
    ALLOW = 3


LAST_OPERATION = 15
"""Operations are numbered 1 (any) to this: two-phase commit."""


class AclFilter(NamedTuple):
    """Which rules are meant; no name, principal or host stands for every one."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int


class DeleteResult(NamedTuple):
    """What a filter has deleted, or why it could not."""

    deleted: Sequence[Acl] = ()
    error: MetadataError | None = None


def plan_create_acls(
    image: ClusterImage, acls: Sequence[Acl], new_id: Callable[[], bytes]
) -> Plan[list[MetadataError | None]]:
    """Plan the creation of rules. One result an entry, in request order: why it was refused, or None."""
    present = set(image.access.acls.values())
    records: list[object] = []
    results: list[MetadataError | None] = []
    for acl in acls:
        try:
            _check_new(acl)
        except MetadataError as refusal:
            results.append(refusal)
            continue
        if acl not in present:
            present.add(acl)
            records.append(acl_record(new_id(), acl))
        results.append(None)
    if len(records) > MAX_RECORDS_PER_COMMAND:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
    return Plan(records, results)


def plan_delete_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> Plan[list[DeleteResult]]:
    """Plan the deletion of what filters match. One result a filter; a rule that two match is told by both."""
    doomed: dict[bytes, None] = {}
    results: list[DeleteResult] = []
    for wanted in filters:
        try:
            _check_filter(wanted)
        except MetadataError as refusal:
            results.append(DeleteResult(error=refusal))
            continue
        found = [(acl_id, acl) for acl_id, acl in image.access.acls.items() if matches(wanted, acl)]
        doomed.update((acl_id, None) for acl_id, _ in found)
        results.append(DeleteResult([acl for _, acl in found]))
    if len(doomed) > MAX_RECORDS_PER_COMMAND:
        raise PolicyViolation(f"Cannot remove more than {MAX_RECORDS_PER_COMMAND} acls in a single delete operation.")
    return Plan([RemoveAccessControlEntryRecord(id=acl_id) for acl_id in doomed], results)


def matching_acls(image: ClusterImage, wanted: AclFilter) -> Iterator[Acl]:
    """Yield the rules that a filter matches; numbers that mean nothing match nothing."""
    return (acl for acl in image.access.acls.values() if matches(wanted, acl))


def _check_filter(wanted: AclFilter) -> None:
    """Raise InvalidRequest unless all numbers of a filter that deletes mean something."""
    if (
        wanted.resource_type not in ResourceType.__members__.values()
        or wanted.pattern_type not in PatternType.__members__.values()
    ):
        raise InvalidRequest("Unknown patternFilter.")
    if not ANY <= wanted.operation <= LAST_OPERATION or wanted.permission_type not in Permission.__members__.values():
        raise InvalidRequest("Unknown entryFilter.")


def matches(wanted: AclFilter, acl: Acl) -> bool:
    """Tell whether a filter means a rule."""
    return (
        wanted.resource_type in (ANY, acl.resource_type)
        and _matches_name(wanted, acl)
        and wanted.principal in (None, acl.principal)
        and wanted.host in (None, acl.host)
        and wanted.operation in (ANY, acl.operation)
        and wanted.permission_type in (ANY, acl.permission_type)
    )


def _matches_name(wanted: AclFilter, acl: Acl) -> bool:
    kind, name = wanted.pattern_type, wanted.resource_name
    if kind not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
        return False
    if name is None or name == acl.resource_name:
        return True
    if kind != PatternType.MATCH:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name == WILDCARD


def _check_new(acl: Acl) -> None:
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if acl.resource_type == ANY or acl.resource_type not in ResourceType.__members__.values():
        raise InvalidRequest(f"Invalid resourceType {acl.resource_type}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {acl.pattern_type}")
    if not ANY < acl.operation <= LAST_OPERATION:
        raise InvalidRequest(f"Invalid operation {acl.operation}")
    if acl.permission_type not in (Permission.DENY, Permission.ALLOW):
        raise InvalidRequest(f"Invalid permissionType {acl.permission_type}")
    if ":" not in acl.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )
