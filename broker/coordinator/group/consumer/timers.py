"""The deadlines of members of consumer groups; in memory only, so all of them start anew after a load.

- session: no heartbeat for so long, and the member is gone;
- rebalance: a member that was asked to give partitions back and has not done so in its own rebalance timeout is gone;
- join, sync: the same for members of the classic protocol, which have to join and then sync.

A deadline never touches a group: it submits a command, which looks again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.shard import Outcome
from broker.coordinator.timers import Timer, Timers

Submit = Callable[[Callable[[], Outcome[None]]], None]
Fence = Callable[[str, str, str, int | None], Outcome[None]]
"""Group, member, reason, and the epoch the member must still be in, if that matters."""

_SESSION_OVER = "its session has run out"
_REBALANCE_OVER = "it did not give its partitions back in time"
_JOIN_OVER = "it did not join within its rebalance timeout"
_SYNC_OVER = "it did not sync within its rebalance timeout"


class _Deadlines:
    """Those of one member; made when first set."""

    __slots__ = ("join", "rebalance", "rebalance_epoch", "session", "sync")

    def __init__(self, session: Timer) -> None:
        self.session = session
        self.rebalance: Timer | None = None
        self.rebalance_epoch = 0
        self.join: Timer | None = None
        self.sync: Timer | None = None


class MemberTimers:
    """The deadlines of all members of one shard."""

    def __init__(self, timers: Timers, submit: Submit, fence: Fence) -> None:
        self._timers = timers
        self._submit = submit
        self._fence = fence
        self._deadlines: dict[tuple[str, str], _Deadlines] = {}

    def start_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start a member's session anew."""
        self._of(group_id, member_id).session.start(timeout_ms)

    def start_rebalance(self, group_id: str, member: ConsumerMember) -> None:
        """Give a member its time to give partitions back."""
        deadlines = self._of(group_id, member.member_id)
        if deadlines.rebalance is None:
            deadlines.rebalance = self._timers.timer(partial(self._expire_rebalance, group_id, member.member_id))
        deadlines.rebalance_epoch = member.epoch
        deadlines.rebalance.start(member.rebalance_timeout_ms)

    def end_rebalance(self, group_id: str, member_id: str) -> None:
        """Note that a member has given back what it had to."""
        deadlines = self._deadlines.get((group_id, member_id))
        if deadlines is not None and deadlines.rebalance is not None:
            deadlines.rebalance.cancel()

    def start_join_if_none(self, group_id: str, member: ConsumerMember) -> None:
        """Give a classic member its time to join, unless it runs already."""
        deadlines = self._of(group_id, member.member_id)
        if deadlines.join is None:
            deadlines.join = self._timer(group_id, member.member_id, _JOIN_OVER)
        if deadlines.join.deadline_ms is None:
            deadlines.join.start(member.rebalance_timeout_ms)

    def start_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Note that a classic member has joined; now it has to sync."""
        deadlines = self._of(group_id, member_id)
        if deadlines.join is not None:
            deadlines.join.cancel()
        if deadlines.sync is None:
            deadlines.sync = self._timer(group_id, member_id, _SYNC_OVER)
        deadlines.sync.start(timeout_ms)

    def end_sync(self, group_id: str, member_id: str) -> None:
        """Note that a classic member has synced."""
        deadlines = self._deadlines.get((group_id, member_id))
        if deadlines is not None and deadlines.sync is not None:
            deadlines.sync.cancel()

    def drop(self, group_id: str, member_id: str) -> None:
        """Forget a member."""
        deadlines = self._deadlines.pop((group_id, member_id), None)
        if deadlines is not None:
            for timer in (deadlines.session, deadlines.rebalance, deadlines.join, deadlines.sync):
                if timer is not None:
                    timer.cancel()

    def drop_all(self) -> None:
        """Forget everybody."""
        for group_id, member_id in list(self._deadlines):
            self.drop(group_id, member_id)

    def _of(self, group_id: str, member_id: str) -> _Deadlines:
        deadlines = self._deadlines.get((group_id, member_id))
        if deadlines is None:
            session = self._timer(group_id, member_id, _SESSION_OVER)
            deadlines = self._deadlines[group_id, member_id] = _Deadlines(session)
        return deadlines

    def _timer(self, group_id: str, member_id: str, reason: str) -> Timer:
        return self._timers.timer(partial(self._submit, partial(self._fence, group_id, member_id, reason, None)))

    def _expire_rebalance(self, group_id: str, member_id: str) -> None:
        deadlines = self._deadlines.get((group_id, member_id))
        if deadlines is not None:
            epoch = deadlines.rebalance_epoch
            self._submit(partial(self._fence, group_id, member_id, _REBALANCE_OVER, epoch))
