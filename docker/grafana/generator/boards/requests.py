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
            "Connections and refusals",
            (
                curves(
                    "Connections",
                    "Open connections of clients.",
                    (f"sum({of('kafka_server_socketservermetrics_connection_count')})", "open"),
                ),
                curves(
                    "New connections",
                    "Accepted in a second. Many of them: clients that do not keep theirs.",
                    (f"sum({per_second('kafka_server_socketservermetrics_connection_creation_total')})", "accepted"),
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
                    "Fetch sessions",
                    "Sessions of consumers, and the partitions in them.",
                    (f"sum({of('kafka_server_fetchsessioncache_numincrementalfetchsessions')})", "sessions"),
                    (f"sum({of('kafka_server_fetchsessioncache_numincrementalfetchpartitionscached')})", "partitions"),
                ),
                curves(
                    "Throttled by quotas",
                    "How long clients had to wait in each second, all together, by the kind of quota.",
                    (f"sum by (kind) ({per_second('odradek_quota_throttle_seconds_total')})", "{{kind}}"),
                    unit="s",
                ),
                curves(
                    "Use of quotas",
                    "Users, client ids and pairs whose use of a quota is measured.",
                    (f"sum by (kind) ({of('odradek_quota_uses')})", "{{kind}}"),
                ),
            ),
        ),
    ),
    (REQUEST,),
)
