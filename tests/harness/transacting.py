"""A transactional producer over a raw connection: every request in the version, and with the faults, a test wants."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.harness import batches
from tests.harness.raw import RawClient, eventually, produce_values
from tests.harness.transactions import is_abort
from tests.harness.wire import Struct

NOT_NOW = (14, 15, 16, 51)
"""The coordinator loads, or still ends the transaction before."""


class RawProducer:
    """The holder of a transactional id."""

    def __init__(self, client: RawClient, transactional_id: str, *, timeout_ms: int = 60_000):
        self.client = client
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self) -> RawProducer:
        """Become the holder; whoever was it before is fenced. Looking for the coordinator creates its topic."""

        find_transaction_coordinator(self.client, self.transactional_id)
        answer = init_producer_id(self.client, self.transactional_id, timeout_ms=self.timeout_ms)
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return self

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        """Add partitions to the transaction; one code each."""

        def ask() -> list[int] | None:
            answer = self.client.request(
                "add_partitions_to_txn",
                version,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[{"name": topic, "partitions": list(partitions)}],
            )
            [topic_answer] = answer.results_by_topic_v3_and_below
            codes = [row.partition_error_code for row in topic_answer.results_by_partition]
            return None if set(codes) & set(NOT_NOW) else codes

        return eventually(ask, what="partitions added")

    def add_group(self, group: str, *, version: int = 3) -> int:
        """Add a group's partition of the offsets topic to the transaction."""

        def ask() -> Struct | None:
            answer = self.client.request(
                "add_offsets_to_txn",
                version,
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group,
            )
            return None if answer.error_code in NOT_NOW else answer

        return eventually(ask, what="offsets added").error_code

    def batch(self, *values: str, sequence: int = 0, **options: Any) -> bytes:
        """Build a batch of the transaction."""
        fields = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "attributes": batches.TRANSACTIONAL,
            "timestamp": int(time.time() * 1000),
        }
        return batches.simple(*values, **(fields | options))

    def produce(self, topic: str, batch: bytes, partition: int = 0, *, version: int = 9, **named: Any) -> Struct:
        """Send a batch in a request of the transactional id."""
        return self.client.produce(
            topic,
            batch,
            partition,
            version=version,
            transactional_id=named.get("transactional_id", self.transactional_id),
        )

    def send(self, topic: str, *values: str, partition: int = 0, version: int = 9) -> int:
        """Append the next batch to a partition and insist on success; return the base offset."""
        sequence = self.sequences.get((topic, partition), 0)
        result = self.produce(topic, self.batch(*values, sequence=sequence), partition, version=version)
        assert result.error_code == 0, result
        self.sequences[topic, partition] = sequence + len(values)
        return int(result.base_offset)

    def send_parts(self, topic: str, parts: Mapping[int, bytes], version: int = 9) -> list[int]:
        """Send batches to several partitions at once; one code each."""
        answer = self.client.request("produce", version, **produce_values(topic, parts, -1, self.transactional_id))
        return [row.error_code for row in answer.responses[0].partition_responses]

    def commit_offsets(
        self,
        group: str,
        offsets: Sequence[tuple[str, int, int]],
        *,
        version: int = 3,
        metadata: str | None = "",
        **member: Any,
    ) -> list[int]:
        """Commit (topic, partition, offset) in the transaction; one code each, in the order of the partitions' names.

        Each broker answers in an order of its own.
        """
        if version >= 3:
            member = {"generation_id": -1, "member_id": "", "group_instance_id": None} | member
        answer = self.client.request(
            "txn_offset_commit",
            version,
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
                    ],
                }
                for topic, partition, offset in offsets
            ],
            **member,
        )
        codes = [
            (topic.name, row.partition_index, row.error_code) for topic in answer.topics for row in topic.partitions
        ]
        return [code for _, _, code in sorted(codes)]

    def end(self, *, commit: bool, version: int = 3) -> int:
        """End the transaction; from v5 on the next one has the epoch that the answer names."""
        answer = self.client.request(
            "end_txn",
            version,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        if version >= 5 and answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)

    def finish(self, *, commit: bool, version: int = 3) -> int:
        """End the transaction, asking until the coordinator has time; its code."""

        def ask() -> tuple[int] | None:
            code = self.end(commit=commit, version=version)
            return None if code in NOT_NOW else (code,)

        return eventually(ask, what="end of the transaction")[0]


def find_transaction_coordinator(client: RawClient, transactional_id: str) -> None:
    """Wait until there is a coordinator for the id."""

    def found() -> bool:
        return bool(client.request("find_coordinator", 1, key=transactional_id, key_type=1).error_code == 0)

    eventually(found, what="transaction coordinator")


def init_producer_id(
    client: RawClient,
    transactional_id: str | None,
    version: int = 4,
    *,
    timeout_ms: int = 60_000,
    producer_id: int = -1,
    epoch: int = -1,
) -> Struct:
    """Ask for a producer id until the coordinator is ready to answer; its answer, whatever it is."""
    mine = {"producer_id": producer_id, "producer_epoch": epoch} if version >= 3 else {}

    def ask() -> Struct | None:
        answer = client.request(
            "init_producer_id",
            version,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            **mine,
        )
        return None if answer.error_code in NOT_NOW else answer

    return eventually(ask, what=f"producer id for {transactional_id}")


def stable_offset(client: RawClient, topic: str, partition: int = 0) -> int:
    """Return where a read_committed consumer ends."""
    return int(client.list_offset(topic, -1, partition, isolation=1).offset)


class FoundMarker(NamedTuple):
    """A marker as it stands in a log."""

    producer_id: int
    epoch: int
    is_commit: bool
    offset: int


def markers_of(client: RawClient, topic: str, partition: int = 0) -> list[FoundMarker]:
    """Fetch all markers of a partition, in the order of the log."""
    found = batches.parse(client.fetch_all(topic, partition))
    return [
        FoundMarker(batch.producer_id, batch.producer_epoch, not is_abort(batch), batch.base_offset)
        for batch in found
        if batch.attributes & batches.CONTROL
    ]


def fetch_offset(client: RawClient, group: str, topic: str, partition: int = 0, *, stable: bool) -> tuple[int, int]:
    """Give (committed offset, error code) of one partition."""
    answer = client.request(
        "offset_fetch",
        7,
        group_id=group,
        topics=[{"name": topic, "partition_indexes": [partition]}],
        require_stable=stable,
    )
    assert answer.error_code == 0, answer
    [row] = answer.topics[0].partitions
    return row.committed_offset, row.error_code


def wait_until_decided(client: RawClient, topic: str, partition: int = 0) -> int:
    """Wait until no transaction is open on a partition; return its end. Markers come after the answer to EndTxn."""

    def decided() -> int | None:
        end = client.end_offset(topic, partition)
        return end if client.list_offset(topic, -1, partition, isolation=1).offset == end else None

    return eventually(decided, what=f"transactions of {topic}-{partition} decided")


def write_marker(
    client: RawClient,
    topic: str,
    producer_id: int,
    epoch: int,
    *,
    commit: bool = False,
    partition: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int | None = None,
) -> int:
    """Write a marker as `kafka-transactions abort` does, v2 with a transaction version, else v1."""
    marker: dict[str, Any] = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": commit,
        "topics": [{"name": topic, "partition_indexes": [partition]}],
        "coordinator_epoch": coordinator_epoch,
    }
    version = 1
    if transaction_version is not None:
        marker["transaction_version"], version = transaction_version, 2
    answer = client.request("write_txn_markers", version, markers=[marker])
    [[row]] = [found.partitions for found in answer.markers[0].topics]
    assert answer.markers[0].producer_id == producer_id and row.partition_index == partition
    return int(row.error_code)


def describe_producers(client: RawClient, topic: str, partition: int = 0) -> Struct:
    """Ask a partition for its producers."""
    answer = client.request("describe_producers", 0, topics=[{"name": topic, "partition_indexes": [partition]}])
    [[row]] = [found.partitions for found in answer.topics]
    return row


def committed(client: RawClient, topic: str, partition: int = 0) -> list[batches.Record]:
    """Return what a read_committed consumer sees of a partition now, by the markers that are there."""
    seen: list[batches.Record] = []
    undecided: dict[int, list[batches.Record]] = {}
    for batch in batches.parse(client.fetch_all(topic, partition)):
        if batch.attributes & batches.CONTROL:
            records = undecided.pop(batch.producer_id, [])
            seen += [] if is_abort(batch) else records
        elif batch.attributes & batches.TRANSACTIONAL:
            undecided.setdefault(batch.producer_id, []).extend(batch.records())
        else:
            seen += batch.records()
    return seen
