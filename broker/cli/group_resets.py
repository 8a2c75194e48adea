"""Which offsets `odradek groups --reset-offsets` gives to a group."""

from __future__ import annotations

import csv
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping

from broker.cli.errors import CommandError
from broker.cli.output import print_lines
from broker.cli.times import duration_ms, timestamp_ms
from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.errors import MissingPartition
from broker.client.groups import committed_offsets
from broker.client.log_offsets import NO_OFFSET, Found, end_offsets, log_offsets, start_offsets

Offsets = dict[TopicPartition, int]
Plans = dict[str, Offsets]
"""By group."""


class Resets:
    """Plans the offsets of one group after the other."""

    def __init__(
        self, client: Client, options: Namespace, now_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    ) -> None:
        self._client = client
        self._options = options
        self._now_ms = now_ms
        self._from_file = read_plans(options.from_file, options.group) if options.from_file is not None else {}

    def plan(self, group: str) -> Offsets:
        """Return the new offsets of a group. Raises: ClientError, CommandError. Changes nothing."""
        if self._options.scenario == "from_file":
            if group not in self._from_file:
                raise CommandError(f"{self._options.from_file} has no offsets for the group {group!r}")
            return self._within_logs(self._from_file[group])
        partitions = self._partitions(group)
        planned: Offsets = getattr(self, f"_{self._options.scenario}")(group, partitions)
        return dict(sorted(planned.items()))

    def _partitions(self, group: str) -> list[TopicPartition]:
        if self._options.all_topics:
            return list(committed_offsets(self._client, group))
        return find_partitions(self._client, self._options.topic)

    # --- scenarios, by the names of their options

    def _to_earliest(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        return known(start_offsets(self._client, partitions))

    def _to_latest(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        return known(end_offsets(self._client, partitions))

    def _to_offset(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        return self._within_logs(dict.fromkeys(partitions, self._options.to_offset))

    def _shift_by(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        current = committed_offsets(self._client, group)
        for partition in partitions:
            if partition not in current:
                raise CommandError(
                    f"Cannot shift offset for partition {partition} since there is no current committed offset"
                )
        return self._within_logs({one: current[one].offset + self._options.shift_by for one in partitions})

    def _to_current(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        current = committed_offsets(self._client, group)
        others = known(end_offsets(self._client, [one for one in partitions if one not in current]))
        return {one: current[one].offset if one in current else others[one] for one in partitions}

    def _to_datetime(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        return self._at(timestamp_ms(self._options.to_datetime), partitions)

    def _by_duration(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        return self._at(self._now_ms() - duration_ms(self._options.by_duration), partitions)

    def _at(self, timestamp: int, partitions: list[TopicPartition]) -> Offsets:
        """Find the first offset at a time or after it; the end where nothing is that late."""
        if timestamp < 0:
            raise CommandError("Invalid time: it lies before 1970")
        found = known(log_offsets(self._client, dict.fromkeys(partitions, timestamp)))
        late = [partition for partition, offset in found.items() if offset == NO_OFFSET]
        if not self._options.json:
            for topic, index in late:
                warning = f"Partition {index} from topic {topic} is empty. Falling back to latest known offset."
                print_lines(["", f"Warn: {warning}"])
        return {**found, **known(end_offsets(self._client, late))}

    def _within_logs(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """Move offsets that a log does not have to its nearer end."""
        starts, ends = known(start_offsets(self._client, wanted)), known(end_offsets(self._client, wanted))
        planned = {}
        for partition, offset in wanted.items():
            bound = min(max(offset, starts[partition]), ends[partition])
            if bound != offset:
                which = "higher than latest" if offset > bound else "lower than earliest"
                print(
                    f"WARN: New offset ({offset}) is {which} offset for topic partition {partition}."
                    f" Value will be set to {bound}",
                    file=sys.stderr,
                )
            planned[partition] = bound
        return planned


def find_partitions(client: Client, arguments: Iterable[str]) -> list[TopicPartition]:
    """Read `topic` and `topic:0,1` as partitions; a whole topic's are asked for. Raises: Refused, CommandError."""
    found: dict[TopicPartition, None] = {}
    for argument in arguments:
        topic, colon, indexes = argument.partition(":")
        found.update(dict.fromkeys(_listed(argument, indexes, topic) if colon else partitions_of(client, topic)))
    return sorted(found)


def partitions_of(client: Client, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Raises: Refused."""
    cluster = client.metadata([topic])
    partitions = cluster.partitions_of(topic)
    if not partitions:
        row = cluster.topics.get(topic)
        raise MissingPartition(row.error_code if row is not None else 3, f"There is no topic {topic}.")
    return partitions


def _listed(argument: str, indexes: str, topic: str) -> list[TopicPartition]:
    try:
        return [TopicPartition(topic, int(index)) for index in indexes.split(",")]
    except ValueError:
        raise CommandError(f"Invalid topic arg {argument[:80]!r}, expected topic name and partitions") from None


def known(found: Found) -> Offsets:
    """Return offsets. Raises: Refused, of the first one that could not be found."""
    offsets = {}
    for partition, (refused, offset) in found.items():
        if refused is not None:
            raise refused
        assert offset is not None, "what is not refused has an offset"
        offsets[partition] = offset
    return offsets


def read_plans(path: str, groups: list[str]) -> Plans:
    """Read CSV: topic,partition,offset for the one group asked for, or the group in front. Raises: CommandError."""
    plans: Plans = {}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            for row in filter(None, csv.reader(file, skipinitialspace=True)):
                if len(row) == 3 and len(groups) == 1:
                    row = [groups[0], *row]
                group, topic, partition, offset = row
                plans.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "expected [group,]topic,partition,offset a line"
        raise CommandError(f"Cannot read {path}: {reason}") from error
    return plans
