"""Run the Java main classes of Apache Kafka's tools from the class path that `make jvm` resolved."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

CLASSPATH_FILE = Path(__file__).resolve().parents[2] / "build" / "jvm-classpath.txt"
# Kafka's classes as a JVM has them once they are loaded and checked; `make jvm` makes it, see harness.java_archive.
ARCHIVE_FILE = CLASSPATH_FILE.with_name("jvm-classes.jsa")
TIMEOUT_S = 120.0


def _archive_options() -> tuple[str, ...]:
    """Take classes from the archive, if there is one; a JVM that it does not fit goes without, and says nothing."""
    return (f"-XX:SharedArchiveFile={ARCHIVE_FILE}", "-Xlog:disable") if ARCHIVE_FILE.exists() else ()


# Short-lived JVMs: a small heap, no second compiler and no class loaded twice start fastest.
QUICK_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *_archive_options())
TOOL_OPTIONS = ("-Xmx256m", *QUICK_OPTIONS)
QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dlog4j2.level=OFF")

MAIN_CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}


def missing() -> str | None:
    """Return why no Java tool can run here, or None if they can."""
    if shutil.which("java") is None:
        return "no java on PATH"
    if not CLASSPATH_FILE.exists():
        return "no class path: run `make jvm`"
    return None


def command_line(main_class: str, *arguments: str, jvm_options: tuple[str, ...] = TOOL_OPTIONS) -> list[str]:
    """Return the command that runs a main class."""
    class_path = CLASSPATH_FILE.read_text(encoding="utf-8").strip()
    return ["java", *jvm_options, "-cp", class_path, main_class, *arguments]


def run(
    main_class: str,
    *arguments: str,
    stdin: str = "",
    timeout_s: float = TIMEOUT_S,
    jvm_options: tuple[str, ...] = TOOL_OPTIONS,
) -> subprocess.CompletedProcess[str]:
    """Run a main class to its end and return its exit code and output, whatever they are."""
    return subprocess.run(
        command_line(main_class, *arguments, jvm_options=(*jvm_options, *QUIET)),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        check=False,
    )


def tool(name: str, *arguments: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
    """Run a tool by its script's name and return its standard output; its exit code must be 0."""
    done = run(MAIN_CLASSES[name], *arguments, stdin=stdin, timeout_s=timeout_s)
    assert done.returncode == 0, f"{name} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
