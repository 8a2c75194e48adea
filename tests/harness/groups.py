"""A member of a classic consumer group over its own raw connection."""

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tests.harness.raw import RawClient, eventually
from tests.harness.wire import Struct

RETRIED = (14, 15, 16)
HIGHEST = {"join_group": 9, "sync_group": 5, "heartbeat": 4, "leave_group": 5}


def find_coordinator(client: RawClient, group: str) -> None:
    """Wait until the group's coordinator answers for it."""
    eventually(lambda: client.request("find_coordinator", 1, key=group, key_type=0).error_code == 0, what="coordinator")

    def loaded() -> bool:
        answer = client.request("describe_groups", 0, groups=[group])
        return answer.groups[0].error_code not in RETRIED

    eventually(loaded, what="coordinator loaded")


def subscription(*topics: str, user_data: bytes | None = None) -> bytes:
    """Write a v0 consumer subscription; the reference may never answer a join with malformed metadata."""
    out = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        out += struct.pack(">h", len(topic)) + topic.encode()
    return out + (struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data)


@dataclasses.dataclass(slots=True)
class Member:
    """What a client remembers of its membership; requests block this member's connection only."""

    client: RawClient
    group: str
    protocols: Sequence[tuple[str, bytes]] = (("range", subscription()),)
    instance: str | None = None
    protocol_type: str = "consumer"
    session_timeout_ms: int = 30000
    rebalance_timeout_ms: int = 30000
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None

    # --- joining

    def send_join(self, version: int = 7) -> None:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": self.session_timeout_ms,
            "member_id": self.member_id,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in self.protocols],
        }
        if version >= 1:
            fields["rebalance_timeout_ms"] = self.rebalance_timeout_ms
        if version >= 5:
            fields["group_instance_id"] = self.instance
        self.client.send("join_group", version, **fields)

    def receive_join(self, version: int = 7) -> Struct:
        """Read the answer and remember what it says on success."""
        _, answer = self.client.receive("join_group", version)
        if answer.error_code == 0:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name
        return answer

    def try_join(self, version: int = 7) -> Struct:
        """Ask once and return the answer, whatever it is."""
        self.send_join(version)
        return self.receive_join(version)

    def start_join(self, version: int = 7) -> None:
        """Get a member id if the version wants one, then ask again without waiting for the answer."""
        if version >= 4 and not self.member_id and self.instance is None:
            answer = self.try_join(version)
            assert answer.error_code == 79, answer
            self.member_id = answer.member_id
        self.send_join(version)

    def join(self, version: int = 7) -> Struct:
        self.start_join(version)
        answer = self.receive_join(version)
        assert answer.error_code == 0, answer
        return answer

    # --- the rest of a member's life

    def send_sync(self, assignments: Mapping[str, bytes] | None = None, version: int = 3) -> None:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "assignments": [{"member_id": who, "assignment": what} for who, what in (assignments or {}).items()],
        }
        if version >= 3:
            fields["group_instance_id"] = self.instance
        if version >= 5:
            fields |= {"protocol_type": self.protocol_type, "protocol_name": self.protocol}
        self.client.send("sync_group", version, **fields)

    def receive_sync(self, version: int = 3) -> Struct:
        return self.client.receive("sync_group", version)[1]

    def try_sync(self, assignments: Mapping[str, bytes] | None = None, version: int = 3) -> Struct:
        self.send_sync(assignments, version)
        return self.receive_sync(version)

    def sync(self, assignments: Mapping[str, bytes] | None = None, version: int = 3) -> bytes:
        answer = self.try_sync(assignments, version)
        assert answer.error_code == 0, answer
        return answer.assignment

    def heartbeat(self, version: int = 3) -> int:
        fields: dict[str, Any] = {"group_instance_id": self.instance} if version >= 3 else {}
        answer = self.client.request(
            "heartbeat",
            version,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            **fields,
        )
        return answer.error_code

    def leave(self, version: int = 1) -> int:
        if version >= 3:
            row = {"member_id": self.member_id, "group_instance_id": self.instance}
            answer = self.client.request("leave_group", version, group_id=self.group, members=[row])
            assert answer.error_code == 0
            return answer.members[0].error_code
        return self.client.request("leave_group", version, group_id=self.group, member_id=self.member_id).error_code

    def commit(self, topic: str, offset: int, version: int = 8, **fields: Any) -> int:
        """Commit partition 0 as this member; ``fields`` replace the member's own."""
        row: dict[str, Any] = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        values = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "topics": [{"name": topic, "partitions": [row]}],
        } | fields
        if version >= 7:
            values.setdefault("group_instance_id", self.instance)
        answer = self.client.request("offset_commit", version, **values)
        [[result]] = [entry.partitions for entry in answer.topics]
        return result.error_code

    def become_stable(self, assignment: bytes = b"assignment", version: int = 7) -> None:
        """Join a group without other members and assign to oneself."""
        answer = self.join(version)
        assert answer.leader == self.member_id
        assert self.sync({self.member_id: assignment}) == assignment


def describe(client: RawClient, group: str, version: int = 5) -> Struct:
    [row] = client.request("describe_groups", version, groups=[group]).groups
    assert row.group_id == group
    return row


def listed(client: RawClient) -> dict[str, str]:
    """List all groups with their states, once every partition of the offsets topic is loaded."""

    def ask() -> Struct | None:
        answer = client.request("list_groups", 4, states_filter=[])
        return None if answer.error_code in RETRIED else answer

    answer = eventually(ask, what="list of groups")
    assert answer.error_code == 0
    return {row.group_id: row.group_state for row in answer.groups}
