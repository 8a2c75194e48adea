"""Kafka's own ProducerPerformance and ConsumerPerformance in one JVM that lives as long as the broker it drives.

A JVM for each run would measure how its compilers warm up. What a tool prints is read strictly: fewer records than were
asked for, or a line in another form, is a failure and never a number.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from tests.harness.tool_host import Done, ToolHost

# As Kafka's scripts start these tools, with a heap that holds ten consumers.
JVM_OPTIONS = ("-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xshare:auto")
TIMEOUT_S = 180.0

_PRODUCED = re.compile(
    r"^(?P<count>\d+) (?P<steady>steady state )?records sent, (?P<rate>[\d.]+) records/sec .*, "
    r"(?P<mean>[\d.]+) ms avg latency, .*, "
    r"(?P<p50>\d+) ms 50th, \d+ ms 95th, (?P<p99>\d+) ms 99th, \d+ ms 99\.9th\.$",
    re.MULTILINE,
)
_CONSUMED_FIELDS = 10
_PRODUCER = "kafka-producer-perf-test"
_CONSUMER = "kafka-consumer-perf-test"


class ToolFailed(Exception):
    """A tool did not do all that it was told to, or said it in a form that is not known."""


class Produced(NamedTuple):
    """What ProducerPerformance says: records per second and latencies in milliseconds, without the warm-up."""

    count: int
    rate: float
    mean_ms: float
    p50_ms: float
    p99_ms: float


class Consumed(NamedTuple):
    """What ConsumerPerformance says: all records, and their rate since partitions were assigned."""

    count: int
    rate: float


def parse_produced(text: str, *, count: int, warm_up: int) -> Produced:
    """Read the summary: of the steady state where there was a warm-up."""
    lines = {bool(found["steady"]): found for found in _PRODUCED.finditer(text)}
    if False not in lines or (warm_up and True not in lines):
        raise ToolFailed(f"no summary:\n{text[-2000:]}")
    if int(lines[False]["count"]) != count:
        raise ToolFailed(f"{lines[False]['count']} of {count} records were acknowledged:\n{text[-2000:]}")
    found = lines[bool(warm_up)]
    return Produced(int(found["count"]), *(float(found[name]) for name in ("rate", "mean", "p50", "p99")))


def parse_consumed(text: str, *, count: int) -> list[Consumed]:
    """Read what each consumer of a run says."""
    rows = [line.split(", ") for line in text.splitlines() if line.count(", ") == _CONSUMED_FIELDS - 1]
    try:
        found = [Consumed(int(row[4]), float(row[9])) for row in rows]
    except ValueError as error:
        raise ToolFailed(f"unknown form:\n{text[-2000:]}") from error
    if not found:
        raise ToolFailed(f"no summary:\n{text[-2000:]}")
    for one in found:
        if one.count != count:
            raise ToolFailed(f"{one.count} of {count} records were consumed:\n{text[-2000:]}")
    return found


class PerfTools:
    """The tools, run against one broker. Their JVM starts with the first use and is replaced after a failure."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._started: ToolHost | None = None

    @property
    def _host(self) -> ToolHost:
        if self._started is None:
            self._started = ToolHost(JVM_OPTIONS)
        return self._started

    def close(self) -> None:
        """End the JVM; a later use starts another."""
        if self._started is not None:
            self._started.close()
            self._started = None

    def produce(
        self,
        topic: str,
        *,
        count: int,
        record_size: int,
        warm_up: int = 0,
        per_second: int = -1,
        properties: Mapping[str, str],
    ) -> Produced:
        """Produce so many records, all of which must be acknowledged."""
        arguments = [
            *("--bootstrap-server", self._bootstrap, "--topic", topic, "--num-records", str(count)),
            *("--record-size", str(record_size), "--throughput", str(per_second)),
            *(("--warmup-records", str(warm_up)) if warm_up else ()),
            *("--reporting-interval", "3600000"),
            *("--command-property", *(f"{name}={value}" for name, value in properties.items())),
        ]
        done = self._host.attempt(_PRODUCER, *arguments, timeout_s=TIMEOUT_S)
        return parse_produced(_output(done, _PRODUCER, arguments), count=count, warm_up=warm_up)

    def consume(self, topic: str, *, count: int, group: str) -> Consumed:
        """Read so many records from the beginning in a group of one."""
        arguments = self._consumer_arguments(topic, count, group)
        done = self._host.attempt(_CONSUMER, *arguments, timeout_s=TIMEOUT_S)
        [consumed] = parse_consumed(_output(done, _CONSUMER, arguments), count=count)
        return consumed

    def consume_together(self, topic: str, *, count: int, group: str, consumers: int) -> list[Consumed]:
        """Have several consumers, each in a group of its own, read the same records side by side."""
        arguments = self._consumer_arguments(topic, count, f"{group}-#")
        done = self._host.attempt_together(_CONSUMER, consumers, *arguments, timeout_s=TIMEOUT_S)
        found = parse_consumed(_output(done, _CONSUMER, arguments), count=count)
        if len(found) != consumers:
            raise ToolFailed(f"{len(found)} of {consumers} consumers have ended well:\n{done.text[-2000:]}")
        return found

    def _consumer_arguments(self, topic: str, count: int, group: str) -> list[str]:
        return [
            *("--bootstrap-server", self._bootstrap, "--topic", topic, "--num-records", str(count)),
            *("--group", group, "--hide-header", "--timeout", "30000"),
        ]


def _output(done: Done, name: str, arguments: list[str]) -> str:
    if done.code != 0:
        raise ToolFailed(f"{name} {' '.join(arguments)} ended with {done.code}:\n{done.text[-2000:]}")
    return done.out
