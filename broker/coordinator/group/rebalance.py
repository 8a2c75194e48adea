"""The phases of a classic rebalance and everything a deadline does to a group.

    Empty --join--> Preparing (initial delay, in slices) --> Completing --leader's sync--> Stable
    Stable or Completing --join, leave, death--> Preparing (until all have rejoined, or the rebalance timeout)

Each function changes the group at once and returns the records of that change. Timers never touch a group directly:
they submit a command, so that they take their turn behind whatever is being written.
Source: GroupMetadataManager (classic part); KIP-134 for the initial delay, KIP-345 for static members.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from broker.coordinator.group.classic_group import ClassicGroup, GroupState, InitialDelay
from broker.coordinator.group.commands import JoinResult, SyncResult
from broker.coordinator.group.member import ClassicMember
from broker.coordinator.group.records import group_metadata_record
from broker.coordinator.shard import Outcome
from broker.coordinator.timers import Timer, Timers
from config.views import GroupConfig
from protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member does not know its id while its first join is parked, so it cannot heartbeat: its client may be long
gone. After this time it is dropped; a client that is still there just tries again."""

Submit = Callable[[Callable[[], Outcome[None]]], None]
"""Runs a command of this shard when its turn comes."""


class Rebalancer:
    """Moves the groups of one shard from generation to generation."""

    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        config: GroupConfig,
        timers: Timers,
        now_ms: Callable[[], int],
        submit: Submit,
        has_offsets: Callable[[str], bool],
    ) -> None:
        self._groups = groups
        self._has_offsets = has_offsets
        self._config = config
        self._timers = timers
        self._now_ms = now_ms
        self._submit = submit

    # -- creating what has timers -----------------------------------------------------------------------------------

    def new_group(self, group_id: str) -> ClassicGroup:
        """Create an empty group, not yet known to the shard."""
        return ClassicGroup(
            group_id,
            now_ms=self._now_ms(),
            join_timer=self._timer(lambda: self._expire_join(group_id)),
            sync_timer=self._timer(lambda: self._expire_sync(group_id)),
        )

    def session_timer(self, group_id: str, member_id: str) -> Timer:
        """Create the timer that removes a member, or a pending one."""
        return self._timer(lambda: self.expire_session(group_id, member_id))

    def _timer(self, command: Callable[[], Outcome[None]]) -> Timer:
        return self._timers.timer(partial(self._submit, command))

    # -- join phase -------------------------------------------------------------------------------------------------

    def maybe_prepare_rebalance(self, group: ClassicGroup, reason: str) -> Outcome[None]:
        """Start a rebalance if none runs, else see whether the running one can end."""
        if group.can_rebalance:
            return self.prepare_rebalance(group, reason)
        return self.maybe_complete_join(group)

    def prepare_rebalance(self, group: ClassicGroup, reason: str) -> Outcome[None]:
        """Begin the join phase: everyone has to join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.abandon_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync_members.clear()
        group.sync_timer.cancel()
        is_initial = group.is_empty
        group.transition_to(GroupState.PREPARING_REBALANCE, now_ms=self._now_ms())
        logger.info(
            "group prepares rebalance group=%s generation=%d reason=%s", group.group_id, group.generation_id, reason
        )
        if is_initial:
            # Members of one application start within seconds of each other: wait for them rather than
            # rebalance once for each.
            delay_ms = self._config.initial_rebalance_delay_ms
            group.has_new_member = False
            group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            group.join_timer.start(delay_ms)
            return Outcome(None)
        if group.has_all_members_joined:
            return self.complete_join(group)
        group.join_timer.start(group.rebalance_timeout_ms)
        return Outcome(None)

    def maybe_complete_join(self, group: ClassicGroup) -> Outcome[None]:
        """End the join phase when everyone has joined; the initial delay is always waited out."""
        if group.state is not GroupState.PREPARING_REBALANCE or group.initial_delay is not None:
            return Outcome(None)
        return self.complete_join(group) if group.has_all_members_joined else Outcome(None)

    def complete_join(self, group: ClassicGroup) -> Outcome[None]:
        """End the join phase: drop who has not come, begin the next generation, answer everyone."""
        group.join_timer.cancel()
        group.initial_delay = None
        missing = [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]
        for member in missing:
            group.remove(member.member_id)
        if missing:
            logger.info(
                "group dropped members that did not rejoin group=%s members=%s",
                group.group_id, ",".join(member.member_id for member in missing),
            )  # fmt: skip
        if group.state is GroupState.DEAD:
            return Outcome(None)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none has come: their sessions decide.
            group.join_timer.start(group.rebalance_timeout_ms)
            return Outcome(None)
        group.init_next_generation(now_ms=self._now_ms())
        if group.is_empty:
            logger.info("group is empty group=%s generation=%d", group.group_id, group.generation_id)
            return Outcome(None, (group_metadata_record(group),), partial(_warn_unwritten, group), replays=False)
        self._answer_joined(group)
        return Outcome(None)

    def _answer_joined(self, group: ClassicGroup) -> None:
        logger.info(
            "group stabilized group=%s generation=%d members=%d protocol=%s",
            group.group_id, group.generation_id, len(group.members), group.protocol_name,
        )  # fmt: skip
        for member in group.members.values():
            group.complete_join(member, joined(group, member))
            member.refresh_session()
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        group.sync_timer.start(group.rebalance_timeout_ms)

    def _expire_join(self, group_id: str) -> Outcome[None]:
        group = self._groups.get(group_id)
        if group is None or group.state is not GroupState.PREPARING_REBALANCE:
            return Outcome(None)
        delay = group.initial_delay
        if delay is not None and group.has_new_member and delay.remaining_ms > 0:
            group.has_new_member = False
            slice_ms = min(self._config.initial_rebalance_delay_ms, delay.remaining_ms)
            group.initial_delay = InitialDelay(slice_ms, max(delay.remaining_ms - delay.slice_ms, 0))
            group.join_timer.start(slice_ms)
            return Outcome(None)
        return self.complete_join(group)

    # -- sync phase -------------------------------------------------------------------------------------------------

    def abandon_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer every parked SyncGroup with an error."""
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error)

    def propagate_assignment(self, group: ClassicGroup) -> None:
        """Answer every parked SyncGroup with its member's assignment."""
        self._propagate(group, ErrorCode.NONE)

    def _propagate(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            if member.awaiting_sync is None:
                continue
            group.complete_sync(member, synced(group, member) if error is ErrorCode.NONE else SyncResult(error))
            # A session that ran out while the member was parked was forgiven, so it has to start anew here.
            member.refresh_session()

    def note_synced(self, group: ClassicGroup, member_id: str) -> None:
        """Note that a member has sent its SyncGroup of this generation."""
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            group.sync_timer.cancel()

    def _expire_sync(self, group_id: str) -> Outcome[None]:
        group = self._groups.get(group_id)
        if group is None or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return Outcome(None)
        pending = sorted(group.pending_sync_members)
        if not pending:
            return Outcome(None)
        for member_id in pending:
            group.remove(member_id)
        return self.prepare_rebalance(group, f"removing {','.join(pending)} on pending sync request expiration")

    # -- members going away -----------------------------------------------------------------------------------------

    def expire_session(self, group_id: str, member_id: str) -> Outcome[None]:
        """Remove a member whose session has run out."""
        group = self._groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return Outcome(None)
        if member_id in group.pending_members:
            group.remove(member_id)
            if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
                return self._end_join_unless_initial(group)
            self._forget_if_unused(group)
            return Outcome(None)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return Outcome(None)
        logger.info("group member failed group=%s member=%s", group_id, member_id)
        return self.remove_member(group, member, f"removing member {member_id} on heartbeat expiration")

    def remove_member(self, group: ClassicGroup, member: ClassicMember, reason: str) -> Outcome[None]:
        """Remove a member; its parked JoinGroup is told that it is unknown, so that a live client tries again."""
        group.remove(member.member_id)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self.maybe_prepare_rebalance(group, reason)
        if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
            return self._end_join_unless_initial(group)
        return Outcome(None)

    def _forget_if_unused(self, group: ClassicGroup) -> None:
        """Drop a group that never got beyond handing out an id: nothing of it was stored."""
        if group.is_simple and group.generation_id == 0 and not self._has_offsets(group.group_id):
            del self._groups[group.group_id]

    def _end_join_unless_initial(self, group: ClassicGroup) -> Outcome[None]:
        if group.initial_delay is not None and group.members:
            return Outcome(None)
        return self.complete_join(group)


def joined(group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False) -> JoinResult:
    """Answer a JoinGroup with the current generation; only the leader sees the members."""
    return JoinResult(
        ErrorCode.NONE,
        member.member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id or "",
        skip_assignment,
        group.members_for_leader() if group.leader_id == member.member_id else (),
    )


def synced(group: ClassicGroup, member: ClassicMember) -> SyncResult:
    """Answer a SyncGroup with the member's stored assignment."""
    return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)


def _warn_unwritten(group: ClassicGroup, code: ErrorCode) -> None:
    # Safe to go on: after a restart the previous generation comes back, and its members' sessions run out.
    if code is not ErrorCode.NONE:
        logger.warning("empty group metadata not written group=%s error=%s", group.group_id, code.name)
