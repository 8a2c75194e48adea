"""A broker's log directories with everything in them: all codecs, transactions, compaction, groups of both protocols.

Whoever reads the files of a stopped broker is tried on these. The topics lie in two directories, `disk-0` and `disk-1`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from tests.harness import batches
from tests.harness.admin import delete_records, set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.consumer_groups import ConsumerMember
from tests.harness.groups import Member, subscription
from tests.harness.offsets import commit
from tests.harness.raw import RawClient, eventually
from tests.harness.transacting import RawProducer

NOW = int(time.time() * 1000)
START = NOW - 4 * 3_600_000
PROPERTIES = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.consumer.assignment.interval.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "log.segment.delete.delay.ms": "100",
}
KEEP = {"retention_ms": "-1", "index_interval_bytes": "200", "internal_segment_bytes": "4096"}
TOPICS: dict[str, dict[str, str]] = {
    "codecs": KEEP,
    "append-time": {**KEEP, "message_timestamp_type": "LogAppendTime"},
    "compacted": {
        "cleanup_policy": "compact",
        "min_cleanable_dirty_ratio": "0",
        "internal_segment_bytes": "4096",
        "index_interval_bytes": "200",
        "delete_retention_ms": "3600000",
    },
    "transactional": {**KEEP, "internal_segment_bytes": "1500"},
    "preallocated": {**KEEP, "preallocate": "true", "segment_bytes": str(1 << 20), "internal_segment_bytes": "4096"},
    "shortened": KEEP,
    "empty": {},
}


def some_batches(seed: int, count: int, *, tombstones: bool = False) -> Iterator[bytes]:
    """Give batches of few records, one codec after the other."""
    chance = random.Random(seed)
    at = START
    for number in range(count):
        records = []
        for _ in range(chance.randrange(1, 12)):
            at += 1
            value = None if tombstones and chance.random() < 0.3 else chance.randbytes(chance.randrange(80))
            headers = ((b"h", b"%d" % at), (b"h", None)) if chance.random() < 0.3 else ()
            records.append(Record(value, b"key-%d" % chance.randrange(25), headers, at))
        yield batches.build(records, codec=number % 5)


def connect(broker: BrokerProcess) -> RawClient:
    """Open a connection."""
    return RawClient((broker.host, broker.port))


def fill(broker: BrokerProcess) -> None:
    """Make topics, groups and transactions of all kinds; the broker has its replicas of them when this returns."""
    with connect(broker) as client:
        for topic, configs in TOPICS.items():
            client.create_topic(topic, **configs)
        client.create_topic("spread", 4)
        client.create_topic("gone")
        client.delete_topic("gone")
        _fill_topics(client)
        _make_groups(broker, client)
        _make_transactions(broker, client)


def _fill_topics(client: RawClient) -> None:
    for topic in ("codecs", "append-time", "shortened", "preallocated"):
        for batch in some_batches(1, 60):
            client.append(topic, batch)
    for batch in some_batches(2, 80, tombstones=True):
        client.append("compacted", batch)
    for _ in range(2):
        client.append("compacted", batches.build([Record(bytes(2400), b"roll", timestamp=NOW)]))
    assert delete_records(client, "shortened", 100).low_watermark == 100
    set_configs(client, "codecs", max_message_bytes="2000000")
    producer_id = client.producer_id()
    for number in range(40):
        records = [Record(b"%d-%d" % (number, at), timestamp=START + number * 10 + at) for at in range(5)]
        client.append(
            "spread",
            batches.build(records, producer_id=producer_id, producer_epoch=0, base_sequence=number // 4 * 5),
            number % 4,
        )


def _make_groups(broker: BrokerProcess, client: RawClient) -> None:
    commit(client, "simple", "codecs", 17, metadata="seventeen")
    classic = Member(connect(broker), "classic", protocols=[("range", subscription("spread"))])
    classic.join()
    classic.sync({classic.member_id: subscription()})
    assert classic.commit("spread", 5) == 0
    gone = Member(connect(broker), "emptied", protocols=[("range", b"no subscription")], protocol_type="other")
    gone.join()
    gone.sync({gone.member_id: b"an assignment"})
    assert gone.commit("spread", 6) == 0
    assert gone.leave() == 0
    one = ConsumerMember(connect(broker), "consumer", "member-1")
    two = ConsumerMember(connect(broker), "consumer", "member-2", instance="instance")
    assert one.join(subscribed_topic_names=["spread"], subscribed_topic_regex="c.*").error_code == 0
    assert two.join("spread", server_assignor="range").error_code == 0

    def has_settled() -> bool:
        for member in (one, two):
            assert member.own().error_code == 0
        [group] = client.request("consumer_group_describe", 1, group_ids=["consumer"]).groups
        return bool(group.group_state == "Stable" and len(group.members) == 2)

    eventually(has_settled, what="a stable consumer group", every_s=0.2)
    leaving = ConsumerMember(connect(broker), "left", "member-3")
    assert leaving.join("spread").error_code == 0
    assert leaving.leave().error_code == 0


def _make_transactions(broker: BrokerProcess, client: RawClient) -> None:
    producers = {name: RawProducer(connect(broker), name, timeout_ms=600_000).init() for name in ("one", "two", "open")}
    for number in range(12):
        for name in ("one", "two"):
            producer = producers[name]
            producer.add("transactional", 0)
            producer.send("transactional", f"{name}-{number}".ljust(60, "-"), "b" * 30)
        producers["one"].finish(commit=number % 3 != 0)
        producers["two"].finish(commit=number % 4 != 1)
        eventually(lambda: _have_ended(client, "one", "two"), what="markers")
    still_open = producers["open"]
    still_open.add("transactional", 0)
    still_open.send("transactional", "not decided")
    assert still_open.add_group("simple") == 0
    assert still_open.commit_offsets("simple", [("spread", 1, 99)]) == [0]


def _have_ended(client: RawClient, *names: str) -> bool:
    answer = client.request("describe_transactions", 0, transactional_ids=list(names))
    return all(row.transaction_state.startswith("Complete") for row in answer.transaction_states)
