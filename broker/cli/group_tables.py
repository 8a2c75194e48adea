"""What `odradek groups` prints: the tables of kafka-consumer-groups.sh, column for column.

A table begins with an empty line, as there: scripts skip it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from broker.client.cluster import TopicPartition
from broker.client.groups import Group, Listed, Member

MISSING = "-"
EMPTY = "Empty"
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


class Row(NamedTuple):
    """A partition with what its group has committed, and the member that reads it."""

    partition: TopicPartition
    leader_epoch: int | None
    offset: int | None
    end_offset: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """How many offsets are still to be read."""
        return None if self.offset is None or self.end_offset is None else self.end_offset - self.offset


class Column(NamedTuple):
    """A column: its head, and how wide it is at least; 0 for the last one, which is not padded."""

    head: str
    width: int = 0


def lay_out(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> list[str]:
    """Give the lines of a table; each column is as wide as its longest cell."""
    cells = [[MISSING if cell is None else str(cell) for cell in row] for row in rows]
    widths = [
        max(column.width, *(len(row[number]) for row in cells), 0) if column.width else 0
        for number, column in enumerate(columns)
    ]
    heads = [column.head for column in columns]
    return [" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (heads, *cells)]


def list_table(groups: Iterable[Listed], *, with_type: bool, with_state: bool) -> list[str]:
    """Lay out a list of groups."""
    rows = list(groups)
    width = max([15, *(len(row.group) for row in rows)]) + 10
    columns = [Column("GROUP", width)]
    columns += [Column("TYPE", 20)] * with_type + [Column("STATE", 20)] * with_state
    return lay_out(columns, ([row.group] + [row.type] * with_type + [row.state] * with_state for row in rows))


def offsets_table(group: str, rows: Iterable[Row], *, is_verbose: bool) -> list[str]:
    """Lay out partitions with offsets and lag."""
    columns = [Column("GROUP", 15), Column("TOPIC", 15), Column("PARTITION", 10)]
    columns += [Column("LEADER-EPOCH", 15)] * is_verbose
    columns += [Column("CURRENT-OFFSET", 15), Column("LOG-END-OFFSET", 15), Column("LAG", 15)]
    columns += [Column("CONSUMER-ID", 15), Column("HOST", 15), Column("CLIENT-ID")]
    cells = []
    for row in rows:
        topic, index = row.partition
        member = row.member
        reader = (None, None, None) if member is None else (member.member_id, member.host, member.client_id)
        epoch = [row.leader_epoch] * is_verbose
        cells.append([group, topic, index, *epoch, row.offset, row.end_offset, row.lag, *reader])
    return ["", *lay_out(columns, cells)]


def members_table(group: Group, *, is_verbose: bool) -> list[str]:
    """Lay out the members of a group."""
    members = group.members
    with_instance = any(member.instance_id for member in members)
    is_migrating = {False, True} <= {member.is_upgraded for member in members}
    columns = [Column("GROUP", 15), Column("CONSUMER-ID", 15)]
    columns += [Column("GROUP-INSTANCE-ID", 17)] * with_instance
    columns += [Column("HOST", 15), Column("CLIENT-ID", 15), Column("#PARTITIONS", 15)]
    if is_verbose:
        columns += [Column("CURRENT-EPOCH", 15), Column("CURRENT-ASSIGNMENT", 20)]
        columns += [Column("TARGET-EPOCH", 15), Column("TARGET-ASSIGNMENT", 20)]
        columns += [Column("UPGRADED")] * is_migrating
    cells = []
    for member in members:
        row: list[Any] = [group.group, member.member_id, *[member.instance_id] * with_instance]
        row += [member.host, member.client_id, len(member.partitions)]
        if is_verbose:
            row += [member.epoch, assignment(member.partitions), member.target_epoch, assignment(member.target)]
            row += [str(member.is_upgraded).lower()] * is_migrating
        cells.append(row)
    # Without --verbose Kafka's tool leaves a blank at the end of each line.
    return ["", *(line if is_verbose else f"{line} " for line in lay_out(columns, cells))]


def state_table(group: Group, *, is_verbose: bool) -> list[str]:
    """Lay out the state of a group."""
    columns = [Column("GROUP", 15), Column("COORDINATOR (ID)", 25), Column("ASSIGNMENT-STRATEGY", 20)]
    columns += [Column("STATE", 20)]
    columns += [Column("GROUP-EPOCH", 15), Column("TARGET-ASSIGNMENT-EPOCH", 25)] * is_verbose
    columns += [Column("#MEMBERS")]
    place = f"{group.coordinator}  ({group.coordinator.id})"
    epochs = [group.epoch, group.assignment_epoch] * is_verbose
    row = [group.group, place, group.assignor or None, group.state, *epochs, len(group.members)]
    return ["", *lay_out(columns, [row])]


def reset_table(offsets: Iterable[tuple[str, TopicPartition, int]]) -> list[str]:
    """Lay out the offsets that groups get."""
    columns = (Column("GROUP", 15), Column("TOPIC", 15), Column("PARTITION", 10), Column("NEW-OFFSET"))
    return ["", *lay_out(columns, ((group, topic, index, offset) for group, (topic, index), offset in offsets))]


def deleted_table(results: Iterable[tuple[str, object, str]]) -> list[str]:
    """Lay out which offsets were deleted."""
    return ["", *lay_out((Column("TOPIC", 15), Column("PARTITION", 10), Column("STATUS", 15)), results)]


def assignment(partitions: Iterable[TopicPartition]) -> str | None:
    """Write partitions as `topic:0,1;other:0`."""
    by_topic: dict[str, list[str]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(str(index))
    return ";".join(f"{topic}:{','.join(indexes)}" for topic, indexes in by_topic.items()) or None


def remark(group: str, state: str) -> str | None:
    """Say what a state means for what is shown."""
    if state == EMPTY:
        return f"Consumer group '{group}' has no active members."
    if state in REBALANCING:
        return f"Warning: Consumer group '{group}' is rebalancing."
    return None
