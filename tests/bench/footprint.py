"""Start-up time, idle memory, memory for each idle connection."""

import contextlib
import time
from pathlib import Path

from tests.bench.load import PinnedBroker, Result
from tests.harness import batches
from tests.harness.raw import ConnectionClosed, RawClient, connections

CONNECTIONS = 1000
IDLE_S = 1.0


def run(directory: Path, rounds: int) -> list[Result]:
    """Each round starts on a directory of its own."""
    starts, idle, each = [], [], []
    for number in range(rounds):
        broker = PinnedBroker(directory / f"footprint-{number}")
        began = time.perf_counter()
        broker.launch()
        try:
            _first_produce((broker.host, broker.port))
            starts.append(time.perf_counter() - began)
            time.sleep(IDLE_S)  # what start-up left behind is done by then
            before = broker.resident_bytes()
            idle.append(before / 1e6)
            with connections((broker.host, broker.port), CONNECTIONS) as opened:
                for connection in opened:
                    connection.versions()
                each.append((broker.resident_bytes() - before) / CONNECTIONS / 1000)
        finally:
            broker.close()
    return [
        Result("exec to first accepted produce, fresh dir", "s", starts, "<= 0.6"),
        Result("idle resident memory", "MB", idle, "<= 60"),
        Result(f"per idle connection, {CONNECTIONS} of them", "KB", each, "<= 20"),
    ]


def _first_produce(address: tuple[str, int]) -> None:
    """Connect as soon as the port is open, let the topic be auto-created, produce until it is accepted."""
    batch = batches.simple("first", timestamp=int(time.time() * 1000))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ConnectionClosed), RawClient(address) as client:
            client.metadata(["first"], create=True)
            while client.produce("first", batch).error_code != 0:
                time.sleep(0.001)
            return
        time.sleep(0.002)
    raise TimeoutError("no produce was accepted")
