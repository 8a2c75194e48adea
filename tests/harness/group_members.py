"""Live members of consumer groups, in threads: librdkafka consumers that commit what they read."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException

from broker.client.client import Client
from broker.client.errors import Refused
from broker.client.groups import committed_offsets, describe_group
from tests.harness.raw import eventually

SETTLED_WITHIN_S = 60
"""Members of the consumer protocol hear of each other with their heartbeats, every five seconds."""


class LiveMember:
    """A consumer of its own thread; it commits all that it reads."""

    def __init__(self, bootstrap: str, group: str, topics: Iterable[str], protocol: str, instance: str = "") -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"client-of-{group}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer = Consumer({**config, "group.instance.id": instance} if instance else config)
        self._consumer.subscribe(list(topics))
        self.committed_count = 0  # changed by the thread
        self._has_to_stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._has_to_stop.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                with suppress(KafkaException):  # its group rebalances: somebody will read it again
                    self._consumer.commit(message, asynchronous=False)
                    self.committed_count += 1
        self._consumer.close()

    def stop(self) -> None:
        """Let it leave its group."""
        self._has_to_stop.set()
        self._thread.join()


def wait_until_settled(bootstrap: str, group: str, *, members: int, committed: int) -> None:
    """Wait until a group has so many members that all hold something, and has committed so many records."""

    def is_settled() -> bool:
        try:
            found = describe_group(client, group)
        except Refused as refused:  # no member has joined yet
            raise AssertionError(refused.message) from refused
        holds = [len(member.partitions) for member in found.members]
        done = sum(one.offset for one in committed_offsets(client, group).values())
        assert (found.state, len(holds), done) == ("Stable", members, committed) and all(holds), (found, done)
        return True

    with Client(bootstrap) as client:
        eventually(is_settled, within_s=SETTLED_WITHIN_S)
