"""Restart with 2,000 partitions: time to the ready line after a clean and an unclean stop, memory, descriptors."""

import os
import re
import time
from pathlib import Path

from tests.bench.load import PinnedBroker, Result
from tests.harness import batches
from tests.harness.raw import RawClient, produce_values

PARTITIONS = 2_000
PER_REQUEST = 200
RECORDS = 20
"""Batches written into each partition before every stop, with an index entry or two."""


def run(directory: Path, rounds: int) -> list[Result]:
    """Write a little into every partition, stop in either way, start, over and over on one directory."""
    broker = PinnedBroker(directory / "restart")
    samples: dict[str, list[float]] = {
        name: [] for name in ("clean", "unclean", "stop", "memory", "written", "started")
    }
    broker.start()
    try:
        with RawClient((broker.host, broker.port)) as client:
            client.create_topic("many", partitions=PARTITIONS)
        for _ in range(rounds):
            for kind in ("clean", "unclean"):
                _write(broker)
                samples["written"].append(_descriptors(broker))
                began = time.perf_counter()
                if kind == "clean":
                    assert broker.stop(timeout_s=60) == 0
                    samples["stop"].append(time.perf_counter() - began)
                else:
                    broker.kill()
                broker.start()
                samples[kind].append(_ready_seconds(broker))
                samples["memory"].append(broker.resident_bytes() / 1e6)
                samples["started"].append(_descriptors(broker))
    finally:
        broker.close()
    return [
        Result(f"clean restart, {PARTITIONS:,} partitions", "s", samples["clean"], "<= 3"),
        Result("unclean restart", "s", samples["unclean"]),
        Result("clean stop after writing into each", "s", samples["stop"]),
        Result("resident memory after the restart", "MB", samples["memory"], "<= 250"),
        Result("open descriptors after the restart", "", samples["started"]),
        Result("open descriptors after writing into each", "", samples["written"]),
    ]


def _write(broker: PinnedBroker) -> None:
    batch = batches.of_size(1024)
    with RawClient((broker.host, broker.port)) as client:
        for first in range(0, PARTITIONS, PER_REQUEST):
            each = dict.fromkeys(range(first, first + PER_REQUEST), batch)
            for _ in range(RECORDS):
                client.send("produce", 9, **produce_values("many", each, acks=1))
                answers = client.receive("produce", 9)[1].responses[0].partition_responses
                assert all(answer.error_code == 0 for answer in answers)


def _ready_seconds(broker: PinnedBroker) -> float:
    """Return what the ready line says of the time since the process began to run our code."""
    found = re.search(r"Kafka Server started .* took_s=([\d.]+)", broker.log_text())
    assert found is not None
    return float(found[1])


def _descriptors(broker: PinnedBroker) -> float:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))
