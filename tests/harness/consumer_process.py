"""A consumer for tests that must kill one: ``consumer_process.py CLIENT BOOTSTRAP GROUP TOPIC ASSIGNOR``.

Prints ``owned P P …``, ``read N N …`` (the values, which are numbers) and ``error TEXT``; commits after each batch;
leaves when its standard input closes.
"""

import asyncio
import contextlib
import sys
import threading

SESSION_MS = 6000


def say(kind: str, *words: object) -> None:
    """Print one line at once."""
    print(kind, *words, flush=True)


def run_confluent(bootstrap: str, group: str, topic: str, assignor: str, leave: threading.Event) -> None:
    """Consume with confluent-kafka."""
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    owned = None
    while not leave.is_set():
        values = []
        message = consumer.poll(0.1)
        while message is not None:
            if message.error():
                say("error", message.error())
            else:
                values.append(message.value().decode())
            message = consumer.poll(0) if len(values) < 100 else None
        if values:
            say("read", *values)
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as failure:
                if failure.args[0].fatal():
                    say("error", failure)
        now = sorted(part.partition for part in consumer.assignment())
        if now != owned:
            owned = now
            say("owned", *owned)
    consumer.close()


async def run_aiokafka(bootstrap: str, group: str, topic: str, assignor: str, leave: threading.Event) -> None:
    """Consume with aiokafka."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import CommitFailedError, IllegalStateError

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        partition_assignment_strategy=[{"range": RangePartitionAssignor}.get(assignor, RoundRobinPartitionAssignor)],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    owned = None
    while not leave.is_set():
        found = await consumer.getmany(timeout_ms=100)
        values = [message.value.decode() for messages in found.values() for message in messages]
        if values:
            say("read", *values)
            # A rebalance may come first; whoever owns the partition then reads them again.
            with contextlib.suppress(CommitFailedError, IllegalStateError):
                await consumer.commit()
        now = sorted(part.partition for part in consumer.assignment())
        if now != owned:
            owned = now
            say("owned", *owned)
    await consumer.stop()


def main() -> None:
    """Run until standard input closes."""
    client, *rest = sys.argv[1:]
    leave = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), leave.set()), daemon=True).start()
    if client == "confluent":
        run_confluent(*rest, leave)
    else:
        asyncio.run(run_aiokafka(*rest, leave))


if __name__ == "__main__":
    main()
