"""Overview: is it healthy, what comes in and goes out, how long does it take, what goes wrong."""

from __future__ import annotations

from shapes import RED, YELLOW, Dashboard, Row, curves, of, per_second, quantiles, stat, table

LATENCY = "odradek_network_request_seconds"
# The series of all topics together: it has no label for the topic.
ALL_TOPICS = 'topic=""'
STATES = {1: "starting", 2: "recovering", 3: "running", 6: "stopping"}

HEALTH = Row(
    "Health",
    (
        stat(
            "State",
            "What the broker does; clients are served while it is running.",
            f"min({of('kafka_server_kafkaserver_brokerstate')})",
            texts=STATES,
            thresholds=((4, YELLOW),),
        ),
        stat(
            "Running since",
            "When the process started.",
            f"max({of('process_start_time_seconds')}) * 1000",
            unit="dateTimeFromNow",
        ),
        stat(
            "Partitions",
            "Partitions of all topics, those of Kafka's internal topics included.",
            f"sum({of('kafka_server_replicamanager_partitioncount')})",
        ),
        stat(
            "Partitions offline",
            "Partitions that are not served because their log directory failed.",
            f"sum({of('kafka_server_replicamanager_offlinereplicacount')})",
            thresholds=((1, RED),),
        ),
        stat(
            "Log directories offline",
            "Directories of log.dirs that failed.",
            f"sum({of('kafka_log_logmanager_offlinelogdirectorycount')})",
            thresholds=((1, RED),),
        ),
        stat(
            "Alerts firing",
            "Of the rules in docker/prometheus/alerts.yml.",
            'count(ALERTS{alertname=~"Odradek.*", alertstate="firing"}) or vector(0)',
            thresholds=((1, RED),),
        ),
    ),
)
TRAFFIC = Row(
    "Traffic",
    (
        curves(
            "Bytes",
            "Bytes of batches in a second, compressed if the producers compress.",
            (f"sum({per_second('kafka_server_brokertopicmetrics_bytesin_total', ALL_TOPICS)})", "in"),
            (f"sum({per_second('kafka_server_brokertopicmetrics_bytesout_total', ALL_TOPICS)})", "out"),
            unit="Bps",
        ),
        curves(
            "Records in",
            "Records appended in a second.",
            (
                f"sum by (instance) ({per_second('kafka_server_brokertopicmetrics_messagesin_total', ALL_TOPICS)})",
                "{{instance}}",
            ),
            unit="suffix: rec/s",
        ),
        curves(
            "Requests",
            "Requests answered in a second, of the ten APIs that are asked for most.",
            (f"topk(10, sum by (request) ({per_second(LATENCY + '_count')}))", "{{request}}"),
            unit="reqps",
            stacked=True,
        ),
    ),
)
LATENCIES = Row(
    "Latency",
    (
        curves(
            "Produce",
            "From the complete request to its response: waiting for the disk and for quotas is in it.",
            *quantiles(LATENCY, 'request="produce"'),
            unit="s",
        ),
        curves(
            "Fetch",
            "A consumer that has read everything waits here for new records, up to its fetch.max.wait.ms.",
            *quantiles(LATENCY, 'request="fetch"'),
            unit="s",
        ),
        curves(
            "Offset commits",
            "From the complete request to its response.",
            *quantiles(LATENCY, 'request="offset_commit"'),
            unit="s",
        ),
    ),
)
TROUBLE = Row(
    "Trouble",
    (
        curves(
            "Errors told to clients",
            "Error codes in responses in a second, the ten most frequent. Some belong to everyday work, as those of a "
            "rebalance.",
            (
                f"topk(10, sum by (request, error) ({per_second('odradek_network_errors_total')}))",
                "{{request}} {{error}}",
            ),
            unit="cps",
        ),
        curves(
            "Free space of log directories",
            "Of the file system of each directory.",
            (f"{of('odradek_log_dir_usable_bytes')} / {of('odradek_log_dir_total_bytes')}", "{{dir}}"),
            unit="percentunit",
            max=1,
        ),
        table(
            "Alerts",
            "Rules of docker/prometheus/alerts.yml that fire or are about to.",
            (("alertname", "Alert", ""), ("severity", "Severity", ""), ("alertstate", "State", "")),
            'max by (alertname, severity, alertstate) (ALERTS{alertname=~"Odradek.*"})',
            width=8,
            height=7,
        ),
    ),
)
BOARD = Dashboard(
    "odradek-overview",
    "Odradek: overview",
    "Is it healthy, what comes in and goes out, how long does it take, what goes wrong.",
    (HEALTH, TRAFFIC, LATENCIES, TROUBLE),
)
