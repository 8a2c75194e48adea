"""Simulated members of a classic group: each joins, syncs, heartbeats, leaves or dies on simulated time.

The leader assigns partitions round robin over the members it is told of, as `member-count` bytes: b"0,3,6". A member
counts as owning what its last successful SyncGroup gave it until it hears that it has to rejoin.
"""

from __future__ import annotations

import asyncio
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.sim.groups import GroupRig

PARTITIONS = 12
HEARTBEAT_MS = 3000


def subscription(*topics: str) -> bytes:
    """Encode a consumer subscription, version 0."""
    body = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + body + b"\xff\xff\xff\xff"


def join_request(
    group_id: str = "g",
    member_id: str = "",
    *,
    instance_id: str | None = None,
    protocols: tuple[str, ...] = ("range",),
    metadata: bytes = b"meta",
    protocol_type: str = "consumer",
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
) -> JoinGroupRequest:
    """Make a JoinGroup."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
    )


def sync_request(
    generation_id: int,
    member_id: str,
    assignments: dict[str, bytes] | None = None,
    *,
    group_id: str = "g",
    instance_id: str | None = None,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
) -> SyncGroupRequest:
    """Make a SyncGroup."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=key, assignment=value) for key, value in (assignments or {}).items()
        ],
    )


def heartbeat_request(
    generation_id: int, member_id: str, *, group_id: str = "g", instance_id: str | None = None
) -> HeartbeatRequest:
    """Make a Heartbeat."""
    return HeartbeatRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=instance_id
    )


def leave_request(member_id: str, *, group_id: str = "g", instance_id: str | None = None) -> LeaveGroupRequest:
    """Make a LeaveGroup of one member."""
    return LeaveGroupRequest(
        group_id=group_id, members=[MemberIdentity(member_id=member_id, group_instance_id=instance_id)]
    )


class SimMember:
    """A consumer that follows the protocol."""

    def __init__(self, rig: GroupRig, *, instance_id: str | None = None, session_timeout_ms: int = 10_000) -> None:
        self.rig = rig
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.member_id = ""
        self.generation_id = -1
        self.generations: list[int] = []
        self.owned: frozenset[int] | None = None
        self.errors: list[ErrorCode] = []
        self.is_fenced = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take part."""
        self._task = self.rig.tasks.spawn("member", self._run())

    async def kill(self) -> None:
        """Vanish without a word."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        self.owned = None

    async def leave(self) -> None:
        """Close: dynamic members say so."""
        await self.kill()
        if self.instance_id is None and self.member_id:
            await self.rig.call(leave_request(self.member_id), 5)

    async def _run(self) -> None:
        while not self.is_fenced:
            if not await self._rejoin():
                continue
            while await self._heartbeat():
                await self._pause(HEARTBEAT_MS)

    async def _rejoin(self) -> bool:
        self.owned = None
        joined = await self.rig.call(
            join_request(
                member_id=self.member_id,
                instance_id=self.instance_id,
                session_timeout_ms=self.session_timeout_ms,
                metadata=subscription("t"),
            ),
            9,
        )
        if not self._accept(joined.error_code, joined.member_id):
            return False
        self.generation_id = joined.generation_id
        self.generations.append(joined.generation_id)
        assignments = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            ids = sorted(member.member_id for member in joined.members)
            for position, member_id in enumerate(ids):
                mine = range(position, PARTITIONS, len(ids))
                assignments[member_id] = ",".join(map(str, mine)).encode()
        synced = await self.rig.call(
            sync_request(self.generation_id, self.member_id, assignments, instance_id=self.instance_id), 5
        )
        if not self._accept(synced.error_code, self.member_id):
            return False
        self.owned = frozenset(int(part) for part in synced.assignment.split(b",") if part)
        return True

    async def _heartbeat(self) -> bool:
        beat = await self.rig.call(
            heartbeat_request(self.generation_id, self.member_id, instance_id=self.instance_id), 4
        )
        return self._accept(beat.error_code, self.member_id)

    def _accept(self, code: int, member_id: str) -> bool:
        if code == ErrorCode.NONE:
            self.member_id = member_id
            return True
        self.errors.append(ErrorCode(code))
        self.owned = None
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = member_id
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        return False

    async def _pause(self, duration_ms: int) -> None:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        call = self.rig.time.call_later(duration_ms, lambda: done.done() or done.set_result(None))
        try:
            await done
        finally:
            call.cancel()


def owners(members: list[SimMember]) -> list[int]:
    """Give the partitions owned, with repetitions, sorted."""
    return sorted(partition for member in members for partition in member.owned or ())
