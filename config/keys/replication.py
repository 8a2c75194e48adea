"""Keys of replication, quotas and metrics."""

from __future__ import annotations

from config.key import ConfigKey
from config.keys.rows import (
    CLASS,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    broker,
)
from config.validators import ListOf, Range

KEYS: tuple[ConfigKey, ...] = (
    broker("replica.fetch.backoff.ms", INT, 1000, Range(0), MEDIUM, "Pause of a follower after a failed fetch."),
    broker("replica.fetch.max.bytes", INT, 1_048_576, Range(0), MEDIUM, "Bytes a follower asks for per partition."),
    broker("replica.fetch.min.bytes", INT, 1, None, HIGH, "Bytes a follower's fetch waits for."),
    broker(
        "replica.fetch.response.max.bytes", INT, 10_485_760, Range(0), MEDIUM, "Most bytes of one answer to a follower."
    ),
    broker("replica.fetch.wait.max.ms", INT, 500, None, HIGH, "Longest wait of a follower's fetch."),
    broker(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        None,
        HIGH,
        "Period at which high watermarks are written to their file.",
    ),
    broker(
        "replica.lag.time.max.ms", LONG, 30_000, None, HIGH, "Time a follower may lag before it leaves the in-sync set."
    ),
    broker("replica.selector.class", STRING, None, None, MEDIUM, "Class that picks the replica a consumer reads from."),
    broker("replica.socket.receive.buffer.bytes", INT, 65_536, None, HIGH, "SO_RCVBUF of a follower's connection."),
    broker("replica.socket.timeout.ms", INT, 30_000, None, HIGH, "Socket timeout of a follower's connection."),
    broker("num.replica.fetchers", INT, 1, Range(1), HIGH, "Fetchers per source broker.", CLUSTER_WIDE),
    broker(
        "num.replica.alter.log.dirs.threads",
        INT,
        None,
        None,
        HIGH,
        "Threads that move replicas between log directories.",
    ),
    broker("background.threads", INT, 10, Range(1), HIGH, "Threads for background work.", CLUSTER_WIDE),
    broker("quota.window.num", INT, 11, Range(1), LOW, "Samples kept for client quotas."),
    broker("quota.window.size.seconds", INT, 1, Range(1), LOW, "Length of a client quota sample."),
    broker("replication.quota.window.num", INT, 11, Range(1), LOW, "Samples kept for replication quotas."),
    broker("replication.quota.window.size.seconds", INT, 1, Range(1), LOW, "Length of a replication quota sample."),
    broker(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        11,
        Range(1),
        LOW,
        "Samples kept for the quota of moves between log directories.",
    ),
    broker(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        1,
        Range(1),
        LOW,
        "Length of a sample for the quota of moves between log directories.",
    ),
    broker("controller.quota.window.num", INT, 11, Range(1), LOW, "Samples kept for quotas on cluster changes."),
    broker(
        "controller.quota.window.size.seconds",
        INT,
        1,
        Range(1),
        LOW,
        "Length of a sample for quotas on cluster changes.",
    ),
    broker("client.quota.callback.class", CLASS, None, None, LOW, "Class that decides client quotas."),
    broker(
        "metric.reporters",
        LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        ListOf(),
        LOW,
        "Classes that report metrics.",
        CLUSTER_WIDE,
    ),
    broker("kafka.metrics.reporters", LIST, (), ListOf(), LOW, "Classes that report server metrics."),
    broker("kafka.metrics.polling.interval.secs", INT, 10, Range(1), LOW, "Period of the server metrics reporters."),
    broker("metrics.num.samples", INT, 2, Range(1), LOW, "Samples kept for a metric."),
    broker("metrics.recording.level", STRING, "INFO", None, LOW, "Least level at which metrics are recorded."),
    broker("metrics.sample.window.ms", LONG, 30_000, Range(1), LOW, "Length of a metric sample."),
    broker("telemetry.max.bytes", INT, 1_048_576, Range(1), LOW, "Largest metrics push accepted from a client."),
)
