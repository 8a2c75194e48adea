"""Requests: how many of which kind, how long they take, what is refused, and the quotas."""

from __future__ import annotations

from shapes import Dashboard, Panel, Query, Row, Variable, curves, of, per_second, quantiles

LATENCY = "odradek_network_request_seconds"
REQUEST = Variable("request", f'{LATENCY}_count{{job="odradek", instance=~"$instance"}}', "request", "API")
WANTED = 'request=~"$request"'

BOARD = Dashboard(
    "odradek-requests",
    "Odradek: requests",
    "How many requests of which kind, how long they take, what is refused, and the quotas.",
    (
        Row(
            "Requests",
            (
                curves(
                    "Requests",
                    "Answered in a second.",
                    (f"sum by (request) ({per_second(f'{LATENCY}_count', WANTED)})", "{{request}}"),
                    unit="reqps",
                    stacked=True,
                    width=12,
                ),
                curves(
                    "Bytes received",
                    "Bytes of requests in a second.",
                    (
                        f"sum by (request) ({per_second('odradek_network_request_bytes_total', WANTED)})",
                        "{{request}}",
                    ),
                    unit="Bps",
                    stacked=True,
                    width=12,
                ),
            ),
        ),
        Row(
            "Latency",
            (
                curves(
                    "Latency by API",
                    "From the complete request to its response, waiting included.",
                    *quantiles(LATENCY, WANTED, by="request", legend="{{request}} "),
                    unit="s",
                    width=12,
                    height=9,
                ),
                Panel(
                    "Distribution",
                    "How many of the chosen requests took how long.",
                    (
                        Query(
                            f"sum by (le) (increase({of(f'{LATENCY}_bucket', WANTED)}[$__rate_interval]))",
                            "{{le}}",
                            form="heatmap",
                        ),
                    ),
                    kind="heatmap",
                    unit="s",
                    width=12,
                    height=9,
                ),
            ),
        ),
        Row(
            "Waiting",
            (
                curves(
                    "Requests that wait now",
                    "For data (Fetch), a flush (Produce) or other members (JoinGroup).",
                    (f"sum by (request) ({of('odradek_network_waiting_requests', WANTED)})", "{{request}}"),
                    stacked=True,
                ),
                curves(
                    "Time that requests waited",
                    "For data, a flush or other members, of those that had to.",
                    *quantiles("odradek_network_request_wait_seconds", WANTED, by="request", legend="{{request}} "),
                    unit="s",
                ),
                curves(
                    "Held by connections",
                    "Bytes of answers that sockets have not taken yet, and of requests that are not worked on yet.",
                    (f"sum({of('odradek_network_unsent_bytes')})", "unsent"),
                    (f"sum({of('odradek_network_received_bytes_held')})", "received"),
                    (f"sum({of('odradek_network_receive_buffer_bytes')})", "large requests"),
                    unit="bytes",
                ),
            ),
        ),
        Row(
            "Errors and quotas",
            (
                curves(
                    "Errors told to clients",
                    "Error codes in responses in a second; a response may have many.",
                    (
                        f"sum by (request, error) ({per_second('odradek_network_errors_total', WANTED)})",
                        "{{request}} {{error}}",
                    ),
                    unit="cps",
                ),
                curves(
                    "Not served",
                    "Failed: by a fault of the broker. Malformed: not decodable. Refused: unknown API or version.",
                    (f"sum({per_second('odradek_network_failed_requests_total')})", "failed"),
                    (f"sum({per_second('odradek_network_malformed_requests_total')})", "malformed"),
                    (f"sum({per_second('odradek_network_refused_frames_total')})", "refused"),
                    unit="reqps",
                ),
                curves(
                    "Throttled by quotas",
                    "How long clients had to wait in each second, all together, by the kind of quota.",
                    (f"sum by (kind) ({per_second('odradek_quota_throttle_seconds_total')})", "{{kind}}"),
                    unit="s",
                ),
            ),
        ),
        Row(
            "Connections",
            (
                curves(
                    "Connections",
                    "Open connections of clients.",
                    (
                        f"sum by (listener) ({of('kafka_server_socketservermetrics_connection_count')})",
                        "{{listener}}",
                    ),
                ),
                curves(
                    "New connections",
                    "Accepted in a second. Many of them: clients that do not keep theirs.",
                    (f"sum({per_second('kafka_server_socketservermetrics_connection_creation_total')})", "accepted"),
                    unit="cps",
                ),
                curves(
                    "Fetch sessions",
                    "Sessions of consumers, and the partitions in them.",
                    (f"sum({of('kafka_server_fetchsessioncache_numincrementalfetchsessions')})", "sessions"),
                    (f"sum({of('kafka_server_fetchsessioncache_numincrementalfetchpartitionscached')})", "partitions"),
                ),
            ),
        ),
    ),
    (REQUEST,),
)
