"""Consumer groups as their coordinators know them, of the classic and of the consumer protocol alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from broker.client.client import GROUP, Client
from broker.client.cluster import Broker, TopicPartition
from broker.client.errors import ClientError, Refused, UnsupportedApi, check, only
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.stored.consumer_protocol import ConsumerProtocolAssignment
from protocol.stored.framing import decode_versioned

CONSUMER_PROTOCOL = "consumer"
NO_PROTOCOL = ""
"""Of a group that only commits offsets."""
CLASSIC = "Classic"
OF_CONSUMER_PROTOCOL = 1
"""Type of a member that speaks the consumer protocol; 0 is a classic one."""
BY_NAME_OFFSET_FETCH = 9
BY_NAME_OFFSET_COMMIT = 9
"""The last versions in which topics have names; of a topic that is deleted the offsets still have one."""


class Listed(NamedTuple):
    """A group in a list."""

    group: str
    protocol_type: str
    state: str
    type: str


class Member(NamedTuple):
    """A member and what it has; epochs and target are those of the consumer protocol."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    partitions: list[TopicPartition]
    epoch: int | None = None
    target_epoch: int | None = None
    target: tuple[TopicPartition, ...] = ()
    is_upgraded: bool | None = None


class Group(NamedTuple):
    """A group, with its coordinator."""

    group: str
    coordinator: Broker
    type: str
    state: str
    assignor: str
    members: list[Member]
    epoch: int | None = None
    assignment_epoch: int | None = None


class Committed(NamedTuple):
    """A committed offset; the leader epoch is -1 where none was given."""

    offset: int
    leader_epoch: int
    metadata: str


def list_groups(client: Client, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[Listed]:
    """List the consumer groups of all brokers, by name. Raises: Refused."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found = {}
    for broker in client.metadata([]).brokers:
        response = client.ask_retrying(request, broker=broker)
        check(response.error_code)
        for row in response.groups:
            if row.protocol_type in (CONSUMER_PROTOCOL, NO_PROTOCOL):
                found[row.group_id] = Listed(
                    row.group_id, row.protocol_type, row.group_state or "Unknown", row.group_type.title() or CLASSIC
                )
    return [found[name] for name in sorted(found)]


def describe_group(client: Client, name: str) -> Group:
    """Describe a group, whichever protocol it is of. Raises: Refused."""
    try:
        request = ConsumerGroupDescribeRequest(group_ids=[name])
        row = only(client.ask_coordinator(GROUP, name, request, codes=_group_codes).groups)
        if row.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            check(row.error_code, row.error_message)
            return _consumer_group(row, _coordinator(client, name))
    except UnsupportedApi:
        pass  # an older broker has classic groups only
    row = only(client.ask_coordinator(GROUP, name, DescribeGroupsRequest(groups=[name]), codes=_group_codes).groups)
    check(row.error_code, row.error_message)
    return _classic_group(row, _coordinator(client, name))


def committed_offsets(client: Client, group: str) -> dict[TopicPartition, Committed]:
    """Return all that a group has committed, in order. Raises: Refused."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )
    response = client.ask_coordinator(
        GROUP, group, request, codes=lambda response: [_offsets_in(response).error_code], at_most=BY_NAME_OFFSET_FETCH
    )
    found = _offsets_in(response)
    check(found.error_code)
    committed = {
        TopicPartition(topic.name, row.partition_index): Committed(
            row.committed_offset, row.committed_leader_epoch, row.metadata or ""
        )
        for topic in found.topics
        for row in topic.partitions
        if not row.error_code and row.committed_offset >= 0
    }
    return dict(sorted(committed.items()))


def commit_offsets(
    client: Client,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    member_id: str = "",
    member_epoch: int = -1,
) -> None:
    """Commit offsets, without a member for a group that has none. Raises: Refused."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
        row = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        topic.partitions.append(row)
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=member_epoch,
        topics=list(topics.values()),
    )
    response = client.ask_coordinator(GROUP, group, request, codes=_partition_codes, at_most=BY_NAME_OFFSET_COMMIT)
    for code in _partition_codes(response):
        check(code)


def delete_offsets(client: Client, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Delete committed offsets: the error code of each. Raises: Refused when all are refused."""
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for name, index in partitions:
        topic = topics.setdefault(name, OffsetDeleteRequestTopic(name=name, partitions=[]))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=index))
    response = client.ask_coordinator(GROUP, group, OffsetDeleteRequest(group_id=group, topics=list(topics.values())))
    check(response.error_code)
    return {
        TopicPartition(topic.name, row.partition_index): row.error_code
        for topic in response.topics
        for row in topic.partitions
    }


def delete_group(client: Client, group: str) -> None:
    """Delete a group that has no members. Raises: Refused."""
    request = DeleteGroupsRequest(groups_names=[group])
    response = client.ask_coordinator(
        GROUP, group, request, codes=lambda response: [row.error_code for row in response.results]
    )
    check(only(response.results).error_code)


def _coordinator(client: Client, name: str) -> Broker:
    node_id = client.coordinator(GROUP, name)
    broker = client.metadata([]).brokers.get(node_id)
    if broker is None:
        raise ClientError(f"Broker {node_id}, which coordinates group '{name}', is not in the cluster.")
    return broker


def _consumer_group(row: Any, coordinator: Broker) -> Group:
    members = [
        Member(
            member.member_id,
            member.instance_id or "",
            member.client_id,
            member.client_host,
            _partitions_by_name(member.assignment),
            member.member_epoch,
            row.assignment_epoch,
            tuple(_partitions_by_name(member.target_assignment)),
            None if member.member_type < 0 else member.member_type == OF_CONSUMER_PROTOCOL,
        )
        for member in row.members
    ]
    return Group(
        row.group_id,
        coordinator,
        "Consumer",
        row.group_state,
        row.assignor_name,
        members,
        row.group_epoch,
        row.assignment_epoch,
    )


def _classic_group(row: Any, coordinator: Broker) -> Group:
    if row.protocol_type not in (CONSUMER_PROTOCOL, NO_PROTOCOL):
        raise Refused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"GroupId {row.group_id} is not a consumer group ({row.protocol_type}).",
        )
    members = [
        Member(
            member.member_id,
            member.group_instance_id or "",
            member.client_id,
            member.client_host,
            _assigned(member.member_assignment),
        )
        for member in row.members
    ]
    return Group(row.group_id, coordinator, CLASSIC, row.group_state, row.protocol_data, members)


def _assigned(data: bytes) -> list[TopicPartition]:
    """Read what a classic member was assigned; nothing while its group rebalances, or where it is no consumer's."""
    if not data:
        return []
    try:
        assignment, _ = decode_versioned(ConsumerProtocolAssignment, data)
    except ProtocolError:
        return []
    return sorted(
        TopicPartition(row.topic, index) for row in assignment.assigned_partitions for index in row.partitions
    )


def _partitions_by_name(assignment: Any) -> list[TopicPartition]:
    return sorted(
        TopicPartition(row.topic_name, index) for row in assignment.topic_partitions for index in row.partitions
    )


def _group_codes(response: Any) -> list[int]:
    return [row.error_code for row in response.groups]


def _offsets_in(response: Any) -> Any:
    """Return what an OffsetFetch answer says of its one group, in whichever layout it came."""
    return only(response.groups) if response.groups else response


def _partition_codes(response: Any) -> list[int]:
    return [row.error_code for topic in response.topics for row in topic.partitions]
