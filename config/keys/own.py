"""Keys that Kafka does not have; all of them begin with odradek."""

from __future__ import annotations

from config.key import ConfigKey
from config.keys.rows import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    HOST_AND_PORT,
    INT,
    LIST,
    LOGGER_LEVEL,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    broker,
)
from config.validators import ListOf, Matching, Range

METRIC_FAMILIES = ("odradek", "jmx", "kafka_exporter")

KEYS: tuple[ConfigKey, ...] = (
    broker(
        "odradek.http.listener",
        STRING,
        "127.0.0.1:9404",
        HOST_AND_PORT,
        MEDIUM,
        "Address of the metrics and health pages; empty switches them off.",
    ),
    broker(
        "odradek.metrics.families",
        LIST,
        METRIC_FAMILIES,
        ListOf(METRIC_FAMILIES),
        LOW,
        "Which families of names the metrics page shows: our own, the JMX exporter's, kafka_exporter's.",
        CLUSTER_WIDE,
    ),
    broker(
        "odradek.metrics.per.partition",
        BOOLEAN,
        True,
        None,
        LOW,
        "Whether the metrics page has series of every single partition.",
        CLUSTER_WIDE,
    ),
    broker(
        "odradek.cluster.id",
        STRING,
        None,
        Matching(r"[A-Za-z0-9_.\-]{1,64}", "up to 64 letters, digits and -_."),
        LOW,
        "Cluster id that log directories get when all are fresh; a random one when absent. Others keep theirs.",
    ),
    broker(
        "odradek.logger.levels",
        LIST,
        (),
        LOGGER_LEVEL,
        LOW,
        "Levels of loggers at the start, as in root=WARN,broker.coordinator=DEBUG; names that are not ours do nothing.",
    ),
    broker(
        "odradek.shutdown.timeout.ms",
        INT,
        20_000,
        Range(1),
        HIGH,
        "Time a stop may take to drain, flush and write checkpoints before the process ends anyway.",
    ),
    broker(
        "odradek.log.flush.on.append",
        BOOLEAN,
        False,
        None,
        HIGH,
        "Whether every append is forced to disk before it is acknowledged.",
    ),
    broker(
        "odradek.log.validate.on.open",
        BOOLEAN,
        True,
        None,
        MEDIUM,
        "Whether the active segment is checked batch by batch when a log is opened, even after a clean stop.",
    ),
    broker(
        "odradek.log.read.buffer.cap.bytes",
        INT,
        4_194_304,
        Range(1),
        LOW,
        "Upper bound of the first buffer of one read from a segment into memory; it grows where there is more.",
    ),
    broker(
        "odradek.log.read.ahead.max.bytes",
        INT,
        4_194_304,
        Range(0),
        LOW,
        "How far beyond its own range a read asks the kernel to prefetch.",
    ),
    broker(
        "odradek.log.timestamp.scan.window.bytes",
        INT,
        65_536,
        Range(1),
        LOW,
        "Piece size in which a search by timestamp reads the log.",
    ),
    broker(
        "odradek.log.tail.cache.bytes",
        INT,
        8_388_608,
        Range(0),
        LOW,
        "Recent appends kept in memory for a segment that bypasses the page cache.",
    ),
    broker(
        "odradek.log.writeback.window.bytes",
        INT,
        8_388_608,
        Range(0),
        LOW,
        "Appended bytes after which write-back to disk starts in the background; 0 leaves it to the kernel.",
    ),
    broker(
        "odradek.log.page.cache.budget.bytes",
        LONG,
        None,
        Range(-1),
        LOW,
        "Written data kept in the page cache across all logs; -1 never drops any. "
        "When absent, half of the memory the process may use.",
    ),
    broker(
        "odradek.log.delivery.clock.uncertainty.ms",
        LONG,
        250,
        Range(1),
        LOW,
        "Margin by which clocks may differ before a scheduled record is released.",
    ),
)
