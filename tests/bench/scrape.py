"""A scrape with 1,000 partitions and 20 groups: how long it takes, and what a client next to it notices.

The client produces one record after the other; its longest wait while the page is scraped over and over stands beside
the longest without. Both hold what the broker and the client's core have to do besides, so each is the least of some.
"""

import threading
import time
import urllib.request
from pathlib import Path

from tests.bench.load import PinnedBroker, Result
from tests.harness import batches
from tests.harness.raw import RawClient, eventually, produce_values

TOPICS, PARTITIONS = 20, 50
GROUPS = 20
SCRAPES = 5
SECONDS = 3.0


def run(directory: Path, rounds: int) -> list[Result]:
    """Fill the broker with names and numbers, then scrape it."""
    broker = PinnedBroker(directory / "scrape")
    samples: dict[str, list[float]] = {
        name: []
        for name in (
            *("first", "idle", "gzip", "loaded", "series", "bytes", "alone", "beside", "slice", "rate", "cpu"),
            *("all", "all_cpu", "all_series"),
        )
    }
    broker.start()
    try:
        _fill(broker)
        samples["first"].append(_scrape(broker)[0])
        for _ in range(rounds):
            samples["gzip"].append(min(_scrape(broker, "gzip")[0] for _ in range(5)))
            body = _measure(broker, samples["idle"], samples["cpu"], samples["series"])
            samples["bytes"].append(len(body) / 1e6)
            alone = _Producer(broker)
            time.sleep(SECONDS)
            samples["alone"].append(alone.longest_ms())
            beside = _Producer(broker)
            took, slices = [], []
            until = time.perf_counter() + SECONDS
            while time.perf_counter() < until:
                seconds, body = _scrape(broker, "gzip")
                took.append(seconds)
                time.sleep(0.05)
            samples["beside"].append(beside.longest_ms())
            samples["rate"].append(len(beside.waits) / max(len(alone.waits), 1))
            samples["loaded"].append(max(took))
            _, body = _scrape(broker)
            (line,) = (one for one in body.splitlines() if one.startswith(b"odradek_metrics_scrape_longest_slice"))
            slices.append(1000 * float(line.split()[-1]))
            samples["slice"].append(max(slices))
        with RawClient((broker.host, broker.port)) as client:
            for number in range(GROUPS):
                assert _commit(client, f"group{number}", _topics())
        for _ in range(rounds):
            _measure(broker, samples["all"], samples["all_cpu"], samples["all_series"])
    finally:
        broker.close()
    return [
        Result("first scrape, the library is loaded", "ms", samples["first"]),
        Result("scrape, nothing else to do", "ms", samples["idle"], "<= 100"),
        Result("... compressed", "ms", samples["gzip"]),
        Result("... compressed, beside a producer, at most", "ms", samples["loaded"], "<= 100"),
        Result("series", "", samples["series"]),
        Result("size of the page", "MB", samples["bytes"]),
        Result("longest wait of a produce without scrapes", "ms", samples["alone"]),
        Result("... while scraped every 50 ms", "ms", samples["beside"]),
        Result("requests of that producer, of those without", "", samples["rate"]),
        Result("longest stretch on the loop", "ms", samples["slice"], "<= 5"),
        Result("processor time of a scrape", "ms", samples["cpu"]),
        Result("scrape, each group has all partitions", "ms", samples["all"], "<= 100"),
        Result("... processor time", "ms", samples["all_cpu"]),
        Result("... series", "", samples["all_series"]),
    ]


def _measure(broker: PinnedBroker, took: list[float], cpu: list[float], series: list[float]) -> bytes:
    """Scrape a few times: the shortest, the processor time of each, how many series; return the page."""
    before_ns = _cpu_ns(broker)
    pages = [_scrape(broker) for _ in range(SCRAPES)]
    cpu.append((_cpu_ns(broker) - before_ns) / SCRAPES / 1e6)
    took.append(min(seconds for seconds, _ in pages))
    _, body = pages[-1]
    series.append(sum(not line.startswith(b"#") for line in body.splitlines()))
    return body


def _cpu_ns(broker: PinnedBroker) -> int:
    """Return the processor time of the broker's main thread and the others so far."""
    tasks = Path(f"/proc/{broker.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def _topics() -> list[str]:
    return [f"t{number}" for number in range(TOPICS)]


class _Producer:
    """Produces one record after the other and looks at the clock."""

    def __init__(self, broker: PinnedBroker) -> None:
        self.waits: list[float] = []
        self._address = broker.host, broker.port
        self._is_wanted = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        batch = batches.of_size(200)
        with RawClient(self._address) as client:
            while self._is_wanted:
                began = time.perf_counter()
                client.append("t0", batch)
                self.waits.append(1000 * (time.perf_counter() - began))

    def longest_ms(self) -> float:
        """Stop, and return the longest wait."""
        self._is_wanted = False
        self._thread.join()
        return max(self.waits)


def _scrape(broker: PinnedBroker, accepted: str = "identity") -> tuple[float, bytes]:
    request = urllib.request.Request(
        f"http://{broker.host}:{broker.http_port}/metrics", headers={"Accept-Encoding": accepted}
    )
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=30) as answer:
        body: bytes = answer.read()
    return 1000 * (time.perf_counter() - began), body


def _fill(broker: PinnedBroker) -> None:
    batch = batches.of_size(1024)
    with RawClient((broker.host, broker.port)) as client:
        for topic in _topics():
            client.create_topic(topic, partitions=PARTITIONS)
            client.send("produce", 9, **produce_values(topic, dict.fromkeys(range(PARTITIONS), batch), acks=1))
            client.receive("produce", 9)
            client.fetch(topic, 0)
        for number in range(GROUPS):
            eventually(lambda group=f"group{number}": _commit(client, group, _topics()[:1]))


def _commit(client: RawClient, group: str, topics: list[str]) -> bool:
    """Commit an offset of every partition."""
    if client.request("find_coordinator", 1, key=group, key_type=0).error_code:
        return False
    rows = [
        {"partition_index": index, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        for index in range(PARTITIONS)
    ]
    answer = client.request(
        "offset_commit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": rows} for topic in topics],
    )
    return not answer.topics[0].partitions[0].error_code
