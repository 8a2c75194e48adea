"""`odradek groups …`: consumer groups, with the options and the output of kafka-consumer-groups.sh.

What that tool prints as an error and then ends with 0, a group that is not there for example, ends with 1 here.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from broker.cli.errors import CommandError
from broker.cli.group_options import NO_EXECUTION, parse
from broker.cli.group_resets import Offsets, Resets, find_partitions
from broker.cli.group_tables import (
    Row,
    deleted_table,
    list_table,
    members_table,
    offsets_table,
    remark,
    reset_table,
    state_table,
)
from broker.cli.online import connected
from broker.cli.output import print_json, print_lines
from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.errors import Refused, describe
from broker.client.groups import (
    Group,
    Member,
    commit_offsets,
    committed_offsets,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)
from broker.client.log_offsets import end_offsets
from broker.client.settings import Settings
from config.regex import InvalidExpression, compiled
from protocol.errors import ErrorCode

STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES = ("Classic", "Consumer")
WITHOUT_MEMBERS = ("Empty", "Dead")


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    options = parse(arguments)
    if options.action == "validate-regex":
        return _validate(options.validate_regex)
    timeout_s = options.timeout / 1000
    with connected(options, Settings(request_timeout_s=timeout_s, total_timeout_s=timeout_s)) as client:
        status: int = _ACTIONS[options.action](client, options)
    return status


# --- list


def _list(client: Client, options: Namespace) -> int:
    states = _chosen("states", options.state, STATES)
    types = _chosen("types", options.type, TYPES)
    groups = list_groups(client, states, types)
    if options.json:
        for group in groups:
            print_json({"group": group.group, "type": group.type, "state": group.state})
    elif options.state is None and options.type is None:
        print_lines(group.group for group in groups)
    else:
        has_type, has_state = options.type is not None, options.state is not None
        print_lines(list_table(groups, with_type=has_type, with_state=has_state))
    return 0


def _chosen(what: str, text: str | None, legal: Sequence[str]) -> list[str]:
    """Read a list of names, in any case. Raises: CommandError."""
    names = {name.lower(): name for name in legal}
    given = [word.strip() for word in (text or "").split(",") if word.strip()]
    unknown = [word for word in given if word.lower() not in names]
    if unknown:
        raise CommandError(f"Invalid {what} list {text!r}. Valid {what} are: {', '.join(legal)}")
    return [names[word.lower()] for word in given]


# --- describe


def _describe(client: Client, options: Namespace) -> int:
    show = _show_members if options.members else _show_state if options.state is not None else _show_offsets
    status = 0
    for name in _names(client, options):
        try:
            group = describe_group(client, name)
        except Refused as refused:
            print(f"odradek: {refused.message}", file=sys.stderr)
            status = 1
            continue
        note = remark(group.group, group.state)
        if note is not None:
            print(f"\n{note}", file=sys.stderr)
        show(client, group, options)
    return status


def _names(client: Client, options: Namespace) -> list[str]:
    return [row.group for row in list_groups(client)] if options.all_groups else sorted(set(options.group))


def _show_offsets(client: Client, group: Group, options: Namespace) -> None:
    rows = _offset_rows(client, group)
    if options.json:
        print_json({**_facts(group), "offsets": [_offset_facts(row) for row in rows]})
    elif rows:
        print_lines(offsets_table(group.group, rows, is_verbose=options.verbose))


def _offset_rows(client: Client, group: Group) -> list[Row]:
    """Give the partitions of members, those with the most first, then others that have offsets."""
    committed = committed_offsets(client, group.group)
    readers = {one: member for member in group.members for one in member.partitions}
    wanted = list(dict.fromkeys([*readers, *committed]))
    ends = {one: offset for one, (refused, offset) in end_offsets(client, wanted).items() if refused is None}
    order = {member.member_id: len(member.partitions) for member in group.members}

    def place(partition: TopicPartition) -> tuple[int, str, TopicPartition]:
        reader = readers.get(partition)
        return (1, "", partition) if reader is None else (-order[reader.member_id], reader.member_id, partition)

    rows = []
    for partition in sorted(wanted, key=place):
        own = committed.get(partition)
        epoch = None if own is None or own.leader_epoch < 0 else own.leader_epoch
        offset = None if own is None else own.offset
        rows.append(Row(partition, epoch, offset, ends.get(partition), readers.get(partition)))
    return rows


def _show_members(client: Client, group: Group, options: Namespace) -> None:
    if options.json:
        print_json({**_facts(group), "members": [_member_facts(member) for member in group.members]})
    else:
        print_lines(members_table(group, is_verbose=options.verbose))


def _show_state(client: Client, group: Group, options: Namespace) -> None:
    if options.json:
        print_json({**_facts(group), "members": len(group.members)})
    else:
        print_lines(state_table(group, is_verbose=options.verbose))


def _facts(group: Group) -> dict[str, Any]:
    return {
        "group": group.group,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor or None,
        "coordinator": {"id": group.coordinator.id, "host": group.coordinator.host, "port": group.coordinator.port},
        "groupEpoch": group.epoch,
        "assignmentEpoch": group.assignment_epoch,
    }


def _offset_facts(row: Row) -> dict[str, Any]:
    topic, index = row.partition
    return {
        "topic": topic,
        "partition": index,
        "currentOffset": row.offset,
        "logEndOffset": row.end_offset,
        "lag": row.lag,
        "leaderEpoch": row.leader_epoch,
        "consumerId": row.member.member_id if row.member is not None else None,
        "host": row.member.host if row.member is not None else None,
        "clientId": row.member.client_id if row.member is not None else None,
    }


def _member_facts(member: Member) -> dict[str, Any]:
    return {
        "consumerId": member.member_id,
        "instanceId": member.instance_id or None,
        "host": member.host,
        "clientId": member.client_id,
        "partitions": [one._asdict() for one in member.partitions],
        "epoch": member.epoch,
        "targetEpoch": member.target_epoch,
        "target": [one._asdict() for one in member.target],
        "upgraded": member.is_upgraded,
    }


# --- reset


def _reset(client: Client, options: Namespace) -> int:
    if not options.dry_run and not options.execute:
        print(NO_EXECUTION, file=sys.stderr)
    resets = Resets(client, options)
    planned: dict[str, Offsets] = {}
    status = 0
    for name in _names(client, options):
        state = _state_of(client, name)
        if state not in WITHOUT_MEMBERS:
            reason = (
                f"Assignments can only be reset if the group '{name}' is inactive, but the current state is {state}."
            )
            print(f"\nError: {reason}", file=sys.stderr if options.json or options.export else sys.stdout)
            status = 1
            continue
        planned[name] = resets.plan(name)
        if options.execute and planned[name]:
            commit_offsets(client, name, planned[name])
    _show_resets(planned, options)
    return status


def _state_of(client: Client, name: str) -> str:
    """Tell the state of a group; one that is not there yet may get offsets."""
    try:
        return describe_group(client, name).state
    except Refused as refused:
        if refused.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return "Dead"


def _show_resets(planned: dict[str, Offsets], options: Namespace) -> None:
    rows = [(group, partition, offset) for group, offsets in planned.items() for partition, offset in offsets.items()]
    if options.json:
        for group, (topic, index), offset in rows:
            print_json({"group": group, "topic": topic, "partition": index, "newOffset": offset})
    elif options.export:
        has_group = len(options.group) != 1
        print_lines(
            f"{group + ',' if has_group else ''}{topic},{index},{offset}" for group, (topic, index), offset in rows
        )
        print_lines([""])
    else:
        print_lines(reset_table(rows))


# --- delete


def _delete(client: Client, options: Namespace) -> int:
    failed: dict[str, str] = {}
    names = _names(client, options)
    for name in names:
        try:
            delete_group(client, name)
        except Refused as refused:
            failed[name] = refused.message
    deleted = [name for name in names if name not in failed]
    if options.json:
        for name in names:
            print_json({"group": name, "error": failed.get(name)})
    elif not failed:
        print_lines([f"Deletion of requested consumer groups ({_quoted(deleted)}) was successful."])
    else:
        print_lines(["", "Error: Deletion of some consumer groups failed:"])
        print_lines(f"* Group '{name}' could not be deleted due to: {reason}" for name, reason in failed.items())
        if deleted:
            print_lines(["", f"These consumer groups were deleted successfully: {_quoted(deleted)}"])
    return 1 if failed else 0


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _delete_offsets(client: Client, options: Namespace) -> int:
    (group,) = options.group
    partitions = find_partitions(client, options.topic)
    results = delete_offsets(client, group, partitions)
    failed = any(results.values())
    if options.json:
        for (topic, index), code in sorted(results.items()):
            print_json({"topic": topic, "partition": index, "error": describe(code) if code else None})
        return 1 if failed else 0
    if failed:
        print_lines(["", "Error: Encountered some partition-level error, see the follow-up details."])
    else:
        print_lines([f"Request succeeded for deleting offsets from group {group}."])
    rows = [
        (topic, index, f"Error: {describe(code)}" if code else "Successful")
        for (topic, index), code in sorted(results.items())
    ]
    print_lines(deleted_table(rows))
    return 1 if failed else 0


# --- expressions


def _validate(expression: str) -> int:
    try:
        compiled(expression)
    except InvalidExpression as invalid:
        print_lines([f"The regular expression `{expression}` is invalid: {invalid}."])
        return 1
    print_lines([f"The regular expression `{expression}` is valid."])
    return 0


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
