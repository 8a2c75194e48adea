"""Members of consumer groups (KIP-848) over raw connections, and what a broker stores of their groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.codec import decode, encode_bytes
from protocol.stored import consumer_group
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient
from tests.harness.stored import stored_batches

RECORD_TYPES = {
    cls.RECORD_TYPE: name.removeprefix("ConsumerGroup").removesuffix("Key")
    for name, cls in vars(consumer_group).items()
    if name.endswith("Key") and hasattr(cls, "RECORD_TYPE")
}

Partitions = Mapping[bytes, Sequence[int]]


@dataclasses.dataclass(slots=True)
class ConsumerMember:
    """A member that says what it is told to say, and remembers what it was given."""

    client: RawClient
    group: str
    member_id: str
    instance: str | None = None
    epoch: int = 0
    version: int = 1
    assigned: dict[bytes, list[int]] = dataclasses.field(default_factory=dict)

    def report(self, **fields: Any) -> Any:
        """Send one heartbeat and take its answer over."""
        answer = self.client.request(
            "consumer_group_heartbeat",
            self.version,
            **{
                "group_id": self.group,
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "instance_id": self.instance,
                "rack_id": None,
                "rebalance_timeout_ms": -1,
                "subscribed_topic_names": None,
                "server_assignor": None,
                "topic_partitions": None,
                **({"subscribed_topic_regex": None} if self.version >= 1 else {}),
                **fields,
            },
        )
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.member_id = answer.member_id or self.member_id
            if answer.assignment is not None:
                self.assigned = {part.topic_id: list(part.partitions) for part in answer.assignment.topic_partitions}
        return answer

    def join(self, *topics: str, **fields: Any) -> Any:
        """Join, or join anew."""
        self.epoch, self.assigned = 0, {}
        names = list(topics) if topics or "subscribed_topic_regex" not in fields else None
        return self.report(
            **{"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, "topic_partitions": [], **fields}
        )

    def own(self, partitions: Partitions | None = None, **fields: Any) -> Any:
        """Report an ownership: what was assigned, unless told otherwise."""
        owned = self.assigned if partitions is None else partitions
        return self.report(
            topic_partitions=[{"topic_id": topic_id, "partitions": list(ps)} for topic_id, ps in owned.items()],
            **fields,
        )

    def leave(self, epoch: int = -1) -> Any:
        """Leave for good, or for a while."""
        self.epoch = epoch
        return self.report()


def stored_group_records(broker: BrokerProcess, group: str) -> list[tuple[str, Any, Any]]:
    """Return the records of a consumer group, decoded: kind, key, value; the offsets topic has one partition."""
    found = []
    for batch in stored_batches(broker.data_directory, "__consumer_offsets"):
        for record in batch.records():
            kind = RECORD_TYPES.get(int.from_bytes(record.key[:2], "big"))
            if kind is None:
                continue
            key_type = getattr(consumer_group, f"ConsumerGroup{kind}Key")
            value_type = getattr(consumer_group, f"ConsumerGroup{kind}Value")
            key = decode(key_type, 0, record.key, 2)
            if key.group_id != group:
                continue
            value = None
            if record.value is not None:
                assert record.value[:2] == b"\x00\x00"
                value = decode(value_type, 0, record.value, 2)
                assert encode_bytes(value, 0) == record.value[2:], "not the bytes that our schema writes"
            found.append((kind, key, value))
    return found
