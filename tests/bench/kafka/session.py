"""One broker from its start to its end, with the tools that drive it: what every workload is given.

A session starts a broker on a fresh directory, takes the time to the first acknowledged record, runs workloads and ends
everything it has started, whatever happens.
"""

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.kafka import brokers, process
from tests.bench.kafka.brokers import Broker
from tests.bench.kafka.results import CPU, Results
from tests.bench.kafka.tools import PerfTools
from tests.harness import batches
from tests.harness.raw import ConnectionClosed, RawClient

START_TIMEOUT_S = 240.0
REQUEST_TIMEOUT_S = 300.0
_ASK_EVERY_S = 0.005


@dataclasses.dataclass(slots=True)
class Session:
    """What a workload works with. `prefix` goes before all its keys."""

    side: str
    broker: Broker
    client: RawClient
    tools: PerfTools
    results: Results
    scale: float = 1.0
    prefix: str = ""
    filled: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def address(self) -> tuple[str, int]:
        """Return where the broker listens."""
        return self.broker.host, self.broker.port

    def scaled(self, count: int) -> int:
        """Give a number of records or seconds' worth of them, smaller in a trial."""
        return max(int(count * self.scale), 1)

    def note(self, key: str, value: float) -> None:
        """Add a sample of this broker."""
        self.results.note(self.prefix + key, self.side, value)

    def note_cpu(self, key: str, seconds: float, records: int) -> None:
        """Add what the broker has used for so many records."""
        self.note(key + CPU, seconds * 1e6 / records)

    def cpu_seconds(self) -> float:
        """Return what the broker has used since its start."""
        return process.cpu_seconds(self.broker.pid)

    def check_held(self, topic: str, partitions: int, records: int) -> None:
        """Insist that a topic holds as many records as were sent to it."""
        held = records_in(self.client, topic, partitions)
        if held != records:
            raise RuntimeError(f"{topic} holds {held} records, {records} were acknowledged")


def records_in(client: RawClient, topic: str, partitions: int) -> int:
    """Count a topic's records by its offsets."""
    wanted = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    answer = client.request("list_offsets", 1, replica_id=-1, topics=[{"name": topic, "partitions": wanted}])
    assert all(row.error_code == 0 for row in answer.topics[0].partitions), answer
    return sum(row.offset for row in answer.topics[0].partitions)


def start(broker: Broker, topic: str) -> float:
    """Start a prepared broker; return the seconds from exec to the first acknowledged record."""
    batch = batches.simple("first", timestamp=int(time.time() * 1000))
    began = time.perf_counter()
    broker.launch()
    deadline = began + START_TIMEOUT_S
    while time.perf_counter() < deadline:
        if broker.process is None or broker.process.poll() is not None:
            break
        with contextlib.suppress(OSError, ConnectionClosed), RawClient((broker.host, broker.port)) as client:
            client.metadata([topic], create=True)
            while client.produce(topic, batch).error_code != 0 and time.perf_counter() < deadline:
                time.sleep(_ASK_EVERY_S)
            return time.perf_counter() - began
        time.sleep(_ASK_EVERY_S)
    raise RuntimeError(f"no record was acknowledged:\n{broker.log_tail()}")


def reconnect(session: Session) -> None:
    """Give a session whose broker was started again a connection to it."""
    session.client.close()
    session.client = RawClient(session.address, timeout_s=REQUEST_TIMEOUT_S)


@contextlib.contextmanager
def session(
    side: str,
    directory: Path,
    results: Results,
    *,
    tuned: bool = False,
    scale: float = 1.0,
    prefix: str = "",
    properties: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """Start a broker and the tools; end them and remove the directory."""
    broker = brokers.make(side, directory, tuned=tuned, properties=properties)
    try:
        seconds = start(broker, "first")
        opened = Session(
            side,
            broker,
            RawClient((broker.host, broker.port), timeout_s=REQUEST_TIMEOUT_S),
            PerfTools(broker.bootstrap),
            results,
            scale,
            prefix,
        )
        try:
            opened.note("start", seconds)
            yield opened
        finally:
            opened.client.close()
            opened.tools.close()
    finally:
        broker.close()
        shutil.rmtree(directory, ignore_errors=True)
