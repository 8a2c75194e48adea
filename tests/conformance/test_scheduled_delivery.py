"""Records that are due three seconds ahead, from every client's producer to every client's consumer.

One story is told once, and all tests look at it: consumers wait, producers send, more consumers come while all is
pending, and everybody gets each record once, in order, and not before its time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess, broker_class, reference_wanted
from tests.harness.client_host import ClientHost
from tests.harness.offsets import commit
from tests.harness.raw import RawClient, eventually
from tests.harness.readers import LATEST, Reader, Wanted, now_ms, readers
from tests.harness.senders import Sender, senders
from tests.harness.sightings import (
    Log,
    check_never_early,
    check_once_in_order,
    lateness_ms,
    spread,
    union,
)

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Apache Kafka has no scheduled topics")

# The consumers whose heartbeats the broker paces learn sooner of a rebalance.
PROPERTIES = {
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}
CLIENTS = ("java", "librdkafka", "kafka-python", "aiokafka")
CONSUMERS = (*CLIENTS, "kcat")
ORDINARY, IN_TRANSACTIONS = "ordinary", "transactions"
AHEAD_MS = 3_000
STEP_MS = 50
PER_SENDER = 20
OLD_PER_SENDER = 2
SHARED = len(CLIENTS)
"""The partition that all producers write to; each has one of its own besides, by its place in CLIENTS."""
READY_WITHIN_S = 60
DELIVERED_WITHIN_S = 30
ASKED_WITHIN_MS = 500
# A record that came twice would have come with the last ones.
GRACE_S = 0.3

COMMITTED = OLD_PER_SENDER + PER_SENDER // 2
"""The offset in each partition, for groups that have committed one which is pending."""

# How the consumers of the ordinary topic read it, and which of them come when all is pending.
GROUPS = [*((client, "classic") for client in CONSUMERS), ("java", "consumer"), ("librdkafka", "consumer")]
FROM_START = [(client, how) for client in CONSUMERS for how in ("assigned", "read_committed")]
LATECOMERS = [(client, how) for client in CONSUMERS for how in ("seek to end", "reset to latest", "by time")]
AHEAD = [(client, "committed ahead") for client in CONSUMERS]
"""Members of groups that have committed an offset which is pending: what is before it they do not want."""
TRANSACTIONAL = [(client, how) for client in CONSUMERS for how in ("committed", "uncommitted")]


class Story:
    """The topics, who reads and writes them, and how it went."""

    def __init__(self, broker: BrokerProcess, host: ClientHost | None, kcat: str) -> None:
        self._broker = broker
        self._make = readers(host, kcat)
        self._senders = senders(host)
        self.partitions = SHARED + 1
        self.readers: dict[tuple[str, str], list[Reader]] = {}
        self.first_due_ms = 0
        self.were_early = False
        self.logs: dict[str, Log] = {}

    def run(self) -> None:
        """Tell it."""
        with RawClient((self._broker.host, self._broker.port)) as client:
            for topic in (ORDINARY, IN_TRANSACTIONS):
                client.create_topic(topic, self.partitions, delivery_mode="scheduled")
            try:
                self._tell(client)
            finally:
                everybody = [reader for some in self.readers.values() for reader in some]
                for reader in everybody:
                    reader.ask_to_stop()
                for reader in everybody:
                    reader.stop()

    def _tell(self, client: RawClient) -> None:
        plain = {name: make(self._broker.bootstrap) for name, make in self._senders.items()}
        in_transactions = {name: make(self._broker.bootstrap, f"id-{name}") for name, make in self._senders.items()}
        self._begin_to_read()
        past_ms = int(now_ms()) - 1_000
        for _ in range(OLD_PER_SENDER):
            self._send_round(plain, past_ms)
        self.first_due_ms = int(now_ms()) + AHEAD_MS
        for number in range(PER_SENDER):
            self._send_round(plain, self.first_due_ms + number * STEP_MS)
        client.append(ORDINARY, self._mixed_batch(), SHARED)
        for sender in plain.values():
            # What is sent without waiting shares batches: however it falls, nothing comes before the time of its batch.
            sender.send_all(ORDINARY, SHARED, [self.first_due_ms + number * STEP_MS for number in range(PER_SENDER)])
        self._commit_ahead(client)
        self._come_late()
        eventually(self._are_ready, within_s=READY_WITHIN_S, what="all who came late have their partitions")
        # Some tell when they have their partitions, not when they have asked for the end of them.
        self.were_early = now_ms() + ASKED_WITHIN_MS < self.first_due_ms
        self._send_transactions(in_transactions)
        self._wait_for_the_last(client)
        for sender in (*plain.values(), *in_transactions.values()):
            sender.close()

    def _begin_to_read(self) -> None:
        for client, protocol in GROUPS:
            self._read(
                client, protocol, Wanted(ORDINARY, self.partitions, group=f"{client}-{protocol}", protocol=protocol)
            )
        for client, how in FROM_START:
            self._read(client, how, Wanted(ORDINARY, self.partitions, is_committed=how == "read_committed"))
        for client, how in TRANSACTIONAL:
            is_committed = how == "committed"
            self._read(client, how, Wanted(IN_TRANSACTIONS, self.partitions, is_committed=is_committed))
        eventually(self._are_ready, within_s=READY_WITHIN_S, what="all consumers have their partitions")

    def _are_ready(self) -> bool:
        everybody = {key: reader for key, some in self.readers.items() for reader in some}
        for key, reader in everybody.items():
            if reader.failure is not None:
                raise RuntimeError(f"{' '.join(key)} has failed") from reader.failure
        waiting = [key for key, reader in everybody.items() if not reader.is_ready]
        assert not waiting, waiting
        return True

    def _read(self, client: str, how: str, wanted: Wanted) -> None:
        if client in self._make:
            self.readers.setdefault((client, how), []).append(self._make[client](self._broker.bootstrap, wanted))

    def _send_round(self, plain: dict[str, Sender], timestamp_ms: int) -> None:
        for name, sender in plain.items():
            for partition in (CLIENTS.index(name), SHARED):
                sender.send(ORDINARY, partition, timestamp_ms, f"{name} for {timestamp_ms}")

    def _mixed_batch(self) -> bytes:
        """Build a batch whose records have several times: all of them wait for the latest."""
        times = [self.first_due_ms + number * STEP_MS for number in (9, 1, 7, 0, 3)]
        return batches.build([batches.Record(f"mixed {time}".encode(), timestamp=time) for time in times])

    def _come_late(self) -> None:
        middle_ms = self.first_due_ms + PER_SENDER // 2 * STEP_MS
        for client, how in LATECOMERS:
            self._read(
                client,
                how,
                Wanted(
                    ORDINARY,
                    self.partitions,
                    start=middle_ms if how == "by time" else LATEST,
                    group=f"{client}-latest" if how == "reset to latest" else "",
                ),
            )
        for client, how in AHEAD:
            self._read(client, how, Wanted(ORDINARY, self.partitions, group=f"{client}-ahead"))
        for client, protocol in GROUPS:
            self._read(
                client, protocol, Wanted(ORDINARY, self.partitions, group=f"{client}-{protocol}", protocol=protocol)
            )

    def _commit_ahead(self, client: RawClient) -> None:
        for name, _ in AHEAD:
            for partition in range(self.partitions):
                commit(client, f"{name}-ahead", ORDINARY, COMMITTED, partition=partition)

    def _send_transactions(self, producers: dict[str, Sender]) -> None:
        """Commit one and abort one before their records are due, and leave one undecided until they are."""
        for name, sender in producers.items():
            for does, count in ((sender.commit, 5), (sender.abort, 3), (None, 3)):
                sender.begin()
                for number in range(count):
                    due_ms = self.first_due_ms + number * STEP_MS
                    sender.send(IN_TRANSACTIONS, CLIENTS.index(name), due_ms, f"{name} for {due_ms}")
                if does is not None:
                    does()
        time.sleep(max(0.0, (self.first_due_ms + 1_000 - now_ms()) / 1000))
        for sender in producers.values():
            sender.commit()

    def _wait_for_the_last(self, client: RawClient) -> None:
        def all_is_due() -> bool:
            return all(
                client.end_offset(topic, partition) == client.fetch(topic, 0, partition).high_watermark
                for topic in (ORDINARY, IN_TRANSACTIONS)
                for partition in range(self.partitions)
            )

        eventually(all_is_due, what="everything is visible")
        for topic in (ORDINARY, IN_TRANSACTIONS):
            self.logs[topic] = Log(client, topic, self.partitions)

        def all_is_seen() -> bool:
            short = {
                key: (seen, len(self.expected(key)))
                for key in self.readers
                if (seen := len(union(self.readers[key]))) < len(self.expected(key))
            }
            assert not short, short
            return True

        # What is missing then, the tests of those that miss it say.
        with suppress(AssertionError):
            eventually(all_is_seen, within_s=DELIVERED_WITHIN_S, what="everybody has everything")
        time.sleep(GRACE_S)

    def log(self, key: tuple[str, str]) -> Log:
        """Return what the consumer's topic holds."""
        return self.logs[IN_TRANSACTIONS if key in TRANSACTIONAL else ORDINARY]

    def expected(self, key: tuple[str, str]) -> dict[tuple[int, int], str]:
        """Return what a consumer must get."""
        _, how = key
        log = self.log(key)
        if how == "committed":
            return log.committed()
        if how == "by time":
            middle_ms = self.first_due_ms + PER_SENDER // 2 * STEP_MS
            stamps = {place: int(value.split()[-1]) for place, value in log.values.items()}
            first = {p: min(o for (q, o), stamp in stamps.items() if q == p and stamp >= middle_ms) for p, _ in stamps}
            return {(p, o): value for (p, o), value in log.values.items() if o >= first[p]}
        if how == "committed ahead":
            return {(p, o): value for (p, o), value in log.values.items() if o >= COMMITTED}
        if how in ("seek to end", "reset to latest"):
            return self._behind_the_visible_end(key)
        return log.values

    def _behind_the_visible_end(self, key: tuple[str, str]) -> dict[tuple[int, int], str]:
        """Return all that was pending; where a slow machine let some of it come due, what follows the first seen."""
        log = self.log(key)
        if self.were_early:
            return {place: value for place, value in log.values.items() if log.due_ms[place] >= self.first_due_ms}
        begun = {one.partition: one.offset for one in reversed(union(self.readers[key]))}
        return {(p, o): value for (p, o), value in log.values.items() if o >= begun.get(p, 0)}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, client_host: ClientHost | None, kcat: str) -> Iterator[Story]:
    broker = broker_class()(tmp_path_factory.mktemp("scheduled"), PROPERTIES)
    broker.start()
    told = Story(broker, client_host, kcat)
    try:
        told.run()
        yield told
    finally:
        broker.close()
    assert not broker.trouble(), broker.trouble()


def keys(*lists: list[tuple[str, str]]) -> pytest.MarkDecorator:
    """Give a test each consumer of some kinds; those of Java want a JVM."""
    found = [key for some in lists for key in some]
    return pytest.mark.parametrize(
        "key",
        [pytest.param(key, marks=[pytest.mark.jvm] if key[0] == "java" else [], id=" ".join(key)) for key in found],
    )


@keys(GROUPS, FROM_START, LATECOMERS, AHEAD, TRANSACTIONAL)
def test_each_record_comes_once_in_order_and_not_before_its_time(story: Story, key: tuple[str, str]) -> None:
    seen = union(story.readers[key])
    log = story.log(key)
    due_ms = log.committed_due_ms() if key[1] == "committed" else log.due_ms
    print(f"{' '.join(key)}: late by {spread(lateness_ms(seen, due_ms, from_ms=story.first_due_ms))}")
    check_never_early(seen, due_ms)
    check_once_in_order(seen, story.expected(key))
