"""Members of groups as prebuilt frames: how they join, heartbeat and are assigned, for loads of thousands."""

import itertools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.fleet import Fleet
from tests.harness import wire
from tests.harness.groups import subscription
from tests.harness.raw import RawClient

JOIN, SYNC, HEARTBEAT, REPORT = 3, 3, 4, 1
"""Versions; a JoinGroup of version 3 is taken in without a member id."""

NO_ERROR = 0


def frame(api: str, version: int, /, **values: Any) -> bytes:
    """Build a request of correlation id 0 with its length."""
    schema = wire.request_schema(api, version)
    payload = wire.encode_header(
        wire.API_KEYS[api], version, 0, "bench", flexible=schema.__flexible__
    ) + wire.encode_struct(schema, values)
    return struct.pack(">i", len(payload)) + payload


def decoded(api: str, version: int, answer: bytes | None) -> Any:
    """Decode an answer that must be there."""
    assert answer is not None
    return wire.decode_answer(api, version, answer)[1]


def assignment(topic: str, numbers: Sequence[int]) -> bytes:
    """Write what a leader assigns to a member."""
    name = topic.encode()
    return (
        struct.pack(">hih", 0, 1, len(name))
        + name
        + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        + struct.pack(">i", -1)
    )


class ClassicMembers:
    """All members of groups of equal size, one connection each; member i is in group i // size."""

    def __init__(self, load: Fleet, size: int, topic: str, partitions: int, session_timeout_ms: int) -> None:
        self.load = load
        self.size = size
        self.generation = 0
        self.member_ids = [""] * len(load)
        self._session_timeout_ms = session_timeout_ms
        self._topic = topic
        self._shares = [assignment(topic, range(i % size, partitions, size)) for i in range(len(load))]

    def group(self, index: int) -> str:
        """Name the group of a member."""
        return f"classic-{index // self.size}"

    def join_frame(self, index: int) -> bytes:
        """Ask for a place in the next generation."""
        return frame(
            "join_group",
            JOIN,
            group_id=self.group(index),
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_ids[index],
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": subscription(self._topic)}],
        )

    def sync_frame(self, index: int, *, leads: bool, generation: int) -> bytes:
        """Ask for the assignment, or bring everyone's."""
        first = index // self.size * self.size
        rows = [
            {"member_id": self.member_ids[i], "assignment": self._shares[i]} for i in range(first, first + self.size)
        ]
        return frame(
            "sync_group",
            SYNC,
            group_id=self.group(index),
            generation_id=generation,
            member_id=self.member_ids[index],
            group_instance_id=None,
            assignments=rows if leads else [],
        )

    def heartbeat_frame(self, index: int, generation: int) -> bytes:
        """Keep the session alive."""
        return frame(
            "heartbeat",
            HEARTBEAT,
            group_id=self.group(index),
            generation_id=generation,
            member_id=self.member_ids[index],
            group_instance_id=None,
        )

    def take_in(self, joined: Sequence[Any]) -> list[bool]:
        """Remember what members were told on joining; tell who leads."""
        self.generation = joined[0].generation_id
        for index, answer in enumerate(joined):
            assert answer.error_code == NO_ERROR, answer
            assert answer.generation_id == self.generation, answer
            self.member_ids[index] = answer.member_id
        return [answer.leader == answer.member_id for answer in joined]

    def begin(self) -> list[bool]:
        """Join all groups at once and have them assigned; tell who leads."""
        answers = self.load.exchange([self.join_frame(index) for index in range(len(self.load))])
        leads = self.take_in([decoded("join_group", JOIN, answer) for answer in answers])
        frames = [
            self.sync_frame(index, leads=leads[index], generation=self.generation) for index in range(len(self.load))
        ]
        for answer in self.load.exchange(frames):
            assert decoded("sync_group", SYNC, answer).error_code == NO_ERROR
        return leads


class ConsumerMembers:
    """The same with the consumer protocol."""

    def __init__(self, load: Fleet, size: int, topic: str, *, name: str = "consumer") -> None:
        self.load = load
        self.size = size
        self._name = name
        self._topic = topic
        self.epochs = [0] * len(load)
        self.owned: list[Mapping[bytes, Sequence[int]]] = [{} for _ in range(len(load))]

    def group(self, index: int) -> str:
        """Name the group of a member."""
        return f"{self._name}-{index // self.size}"

    def member_id(self, index: int) -> str:
        """Name a member."""
        return f"member-{index:016}"

    def join_frame(self, index: int) -> bytes:
        """Join, owning nothing."""
        return frame(
            "consumer_group_heartbeat",
            REPORT,
            group_id=self.group(index),
            member_id=self.member_id(index),
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )

    def report_frame(self, index: int, *, says_owned: bool) -> bytes:
        """Heartbeat, with what the member owns or without."""
        owned = [{"topic_id": topic_id, "partitions": list(ps)} for topic_id, ps in self.owned[index].items()]
        return frame(
            "consumer_group_heartbeat",
            REPORT,
            group_id=self.group(index),
            member_id=self.member_id(index),
            member_epoch=self.epochs[index],
            topic_partitions=owned if says_owned else None,
        )

    def take_in(self, index: int, answer: bytes | None) -> bool:
        """Take over what a member was told; tell whether its assignment changed, which it reports at once."""
        report = decoded("consumer_group_heartbeat", REPORT, answer)
        assert report.error_code == NO_ERROR, report
        self.epochs[index] = report.member_epoch
        if report.assignment is None:
            return False
        told = {row.topic_id: tuple(row.partitions) for row in report.assignment.topic_partitions}
        has_changed = told != self.owned[index]
        self.owned[index] = told
        return has_changed

    def is_settled(self, client: RawClient, first: int = 0) -> bool:
        """Tell whether a group is stable, as the broker sees it."""
        [group] = client.request("consumer_group_describe", 1, group_ids=[self.group(first)]).groups
        return bool(group.group_state == "Stable" and len(group.members) == self.size)

    def has_everything(self, partitions: int) -> bool:
        """Tell whether in each group every partition has one owner and every member, in the same epoch, its share."""
        share = partitions // self.size
        for first in range(0, len(self.load), self.size):
            members = range(first, first + self.size)
            owned = [[number for ps in self.owned[index].values() for number in ps] for index in members]
            if len({self.epochs[index] for index in members}) > 1 or any(len(numbers) != share for numbers in owned):
                return False
            assert sorted(itertools.chain.from_iterable(owned)) == list(range(partitions)), "two owners"
        return True

    def settle(self, partitions: int) -> int:
        """Heartbeat without a pause until everything is assigned; return how many heartbeats that took of each."""
        changed = [True] * len(self.load)
        rounds = 0
        while not self.has_everything(partitions):
            rounds += 1
            answers = self.load.exchange(
                [self.report_frame(index, says_owned=changed[index]) for index in range(len(self.load))]
            )
            changed = [self.take_in(index, answer) for index, answer in enumerate(answers)]
        return rounds
