"""Process: CPU, memory, files, and what scraping costs."""

from __future__ import annotations

from shapes import Dashboard, Row, curves, of, per_second

BOARD = Dashboard(
    "odradek-process",
    "Odradek: process",
    "CPU, memory, files, and what scraping costs.",
    (
        Row(
            "Process",
            (
                curves(
                    "CPU",
                    "Processors used. Requests are served by one thread: near 1 it is busy all the time.",
                    (per_second("process_cpu_seconds_total"), "{{instance}}"),
                    unit="suffix: CPUs",
                ),
                curves(
                    "Memory",
                    "Resident memory; the page cache, which keeps the logs, is the kernel's and not in it.",
                    (of("process_resident_memory_bytes"), "{{instance}}"),
                    unit="bytes",
                ),
                curves(
                    "File descriptors",
                    "Open, and how many may be.",
                    (of("process_open_fds"), "{{instance}} open"),
                    (of("process_max_fds"), "{{instance}} limit"),
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
                    "Metrics of clients",
                    "Clients whose metrics are kept; they push them as KIP-714 says.",
                    (of("odradek_client_metrics_clients"), "{{instance}} clients"),
                ),
            ),
        ),
    ),
)
