"""Process: the event loop, CPU, memory, files, and what scraping costs."""

from __future__ import annotations

from shapes import RED, YELLOW, Dashboard, Row, curves, of, per_second, quantiles, stat

BOARD = Dashboard(
    "odradek-process",
    "Odradek: process",
    "The event loop, CPU, memory, files, and what scraping costs.",
    (
        Row(
            "Event loop",
            (
                curves(
                    "Lag of the event loop",
                    "How late a timer is: what every request waits at least. Ten times a second.",
                    *quantiles("odradek_event_loop_lag_seconds"),
                    unit="s",
                    thresholds=((0.1, YELLOW), (0.5, RED)),
                    width=10,
                ),
                curves(
                    "Busy",
                    "The part of the last minute that the thread of the event loop has computed.",
                    (of("odradek_event_loop_busy_ratio"), "{{instance}}"),
                    unit="percentunit",
                    max=1,
                    thresholds=((0.9, YELLOW),),
                    width=10,
                ),
                stat(
                    "Version",
                    "Of the broker; compiled: its hot modules are machine code, pure: they are Python.",
                    of("odradek_build_info"),
                    legend="{{version}} {{form}}",
                    text_of_label=True,
                    height=7,
                ),
            ),
        ),
        Row(
            "Process",
            (
                curves(
                    "CPU",
                    "Processors used, by all threads and what they wait for in the kernel.",
                    (per_second("process_cpu_seconds_total"), "{{instance}}"),
                    unit="suffix: CPUs",
                ),
                curves(
                    "Memory",
                    "Resident memory, and its limit; the page cache, where the logs are, is not in it.",
                    (of("process_resident_memory_bytes"), "{{instance}} used"),
                    (of("odradek_memory_limit_bytes"), "{{instance}} limit"),
                    unit="bytes",
                ),
                curves(
                    "File descriptors",
                    "Open, and how many may be.",
                    (of("process_open_fds"), "{{instance}} open"),
                    (of("process_max_fds"), "{{instance}} limit"),
                ),
                curves(
                    "Disk",
                    "Bytes in a second that the process had read from and written to disks.",
                    (f"rate({of('kafka_server_kafkaserver_linux_disk_read_bytes')}[$__rate_interval])", "read"),
                    (f"rate({of('kafka_server_kafkaserver_linux_disk_write_bytes')}[$__rate_interval])", "written"),
                    unit="Bps",
                ),
                curves(
                    "Metadata",
                    "Topics and partitions of the cluster.",
                    (of("kafka_controller_kafkacontroller_globaltopiccount"), "topics"),
                    (of("kafka_controller_kafkacontroller_globalpartitioncount"), "partitions"),
                ),
                curves(
                    "Metrics of clients",
                    "Clients whose metrics are kept; they push them as KIP-714 says.",
                    (of("odradek_client_metrics_clients"), "{{instance}}"),
                ),
            ),
        ),
        Row(
            "Scraping",
            (
                curves(
                    "Duration of a scrape",
                    "As Prometheus sees it.",
                    (of("scrape_duration_seconds"), "{{instance}}"),
                    unit="s",
                ),
                curves(
                    "Series",
                    "Samples of a scrape; odradek.metrics.per.partition=false leaves out those of single partitions.",
                    (of("scrape_samples_scraped"), "{{instance}}"),
                ),
                curves(
                    "Taken from the event loop",
                    "How long the last scrape kept the event loop at a stretch, at most.",
                    (of("odradek_metrics_scrape_longest_slice_seconds"), "{{instance}}"),
                    unit="s",
                ),
            ),
        ),
    ),
)
