"""The two brokers that are compared: how each is configured and started.

Both get the same settings: those in which Kafka's own ``config/server.properties`` for one node differs from the
defaults. Kafka is started as its ``kafka-server-start.sh`` would, Odradek as its command does. Neither is pinned.
"""

from collections.abc import Mapping
from pathlib import Path

from tests.harness import java
from tests.harness.broker import BrokerProcess, KafkaProcess

OURS = "odradek"
KAFKA = "kafka"
SIDES = (OURS, KAFKA)
BARE = "bare loop"

SINGLE_NODE = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

TUNED_BOTH = {"socket.send.buffer.bytes": "1048576", "socket.receive.buffer.bytes": "1048576"}
"""What an operator would change whichever broker it is: room for a few large requests in each socket."""

TUNED_KAFKA = {"num.network.threads": "2", "num.io.threads": "2"}
"""As many threads as a machine of two cores can run: the defaults are for larger ones."""

TUNED_OURS = {"odradek.log.writeback.window.bytes": "0"}
"""Leave it to the kernel when data is written to disk, as Kafka does."""

# The options of kafka-server-start.sh and kafka-run-class.sh; tuned, the heap is touched before the broker serves.
HEAP = ("-Xmx1G", "-Xms1G")
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
TUNED_JVM_OPTIONS = ("-XX:+AlwaysPreTouch",)
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=info",)


class OdradekUnderTest(BrokerProcess):
    """Odradek, with its byte code compiled as in an installation."""

    def __init__(self, directory: Path, *, tuned: bool = False, properties: Mapping[str, str] | None = None) -> None:
        more = {**TUNED_BOTH, **TUNED_OURS} if tuned else {}
        super().__init__(directory, {**more, **(properties or {})}, environment={"PYTHONDONTWRITEBYTECODE": ""})

    def default_properties(self) -> dict[str, str]:
        """Return what both have, and where the ports and directories are."""
        return {
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data_directory),
            "odradek.http.listener": f"{self.host}:{self.http_port}",
            **SINGLE_NODE,
        }


class KafkaUnderTest(KafkaProcess):
    """One Apache Kafka node in combined mode, with the JVM options of its own scripts."""

    start_timeout_s = 240.0
    stop_timeout_s = 240.0

    def __init__(self, directory: Path, *, tuned: bool = False, properties: Mapping[str, str] | None = None) -> None:
        more = {**TUNED_BOTH, **TUNED_KAFKA} if tuned else {}
        self._tuned = tuned
        super().__init__(directory, {**more, **(properties or {})})

    def default_properties(self) -> dict[str, str]:
        """Return what both have, and what a node with its own controller needs."""
        properties = super().default_properties()
        del properties["log.initial.task.delay.ms"]
        return {**properties, **SINGLE_NODE}

    def command(self) -> list[str]:
        """Return the command line that the scripts would build."""
        gc_log = f"-Xlog:gc*:file={self.directory / 'kafkaServer-gc.log'}:time,tags:filecount=10,filesize=100M"
        options = (*HEAP, *JVM_OPTIONS, *(TUNED_JVM_OPTIONS if self._tuned else ()), gc_log, *LOGGING)
        return java.command_line("kafka.Kafka", str(self.properties_path), jvm_options=options)


Broker = OdradekUnderTest | KafkaUnderTest


def make(side: str, directory: Path, *, tuned: bool = False, properties: Mapping[str, str] | None = None) -> Broker:
    """Make a broker of a side on a fresh directory and prepare it, so that a start is all that is left to do."""
    kind = OdradekUnderTest if side == OURS else KafkaUnderTest
    broker = kind(directory, tuned=tuned, properties=properties)
    broker.prepare()
    return broker
