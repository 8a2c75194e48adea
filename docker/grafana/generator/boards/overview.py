"""Overview: is it healthy, what comes in and goes out, how long does it take, what goes wrong."""

from __future__ import annotations

from shapes import RED, YELLOW, Dashboard, Row, curves, of, per_second, quantiles, stat, table

LATENCY = "odradek_network_request_seconds"
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
            "Records in",
            "Records appended in a second.",
            (f"sum by (instance) ({per_second('kafka_server_brokertopicmetrics_messagesin_total')})", "{{instance}}"),
            unit="suffix: rec/s",
        ),
        curves(
            "Bytes in",
            "Bytes of batches appended in a second, as they were sent: compressed if the producers compress.",
            (f"sum({per_second('kafka_server_brokertopicmetrics_bytesin_total')})", "in"),
            unit="Bps",
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
            *quantiles(LATENCY, 'request="Produce"'),
            unit="s",
        ),
        curves(
            "Fetch",
            "A consumer that has read everything waits here for new records, up to its fetch.max.wait.ms.",
            *quantiles(LATENCY, 'request="Fetch"'),
            unit="s",
        ),
        curves(
            "Offset commits",
            "From the complete request to its response.",
            *quantiles(LATENCY, 'request="OffsetCommit"'),
            unit="s",
        ),
    ),
)
TROUBLE = Row(
    "Trouble",
    (
        curves(
            "Requests that failed",
            "Failed: the connection was closed because of a fault of the broker. Malformed: it could not be decoded.",
            (f"sum({per_second('odradek_network_failed_requests_total')})", "failed"),
            (f"sum({per_second('odradek_network_malformed_requests_total')})", "malformed"),
            (f"sum({per_second('odradek_network_refused_frames_total')})", "refused frames"),
            unit="reqps",
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
