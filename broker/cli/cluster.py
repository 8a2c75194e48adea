"""`odradek cluster cluster-id`: what `kafka-cluster.sh` is asked most."""

from __future__ import annotations

from collections.abc import Sequence

from broker.cli.online import add_connection_options, connected
from broker.cli.options import Parser
from broker.cli.output import print_json, print_lines
from protocol.messages.describe_cluster import DescribeClusterRequest


def run(arguments: Sequence[str]) -> int:
    """Print the cluster id."""
    parser = Parser("cluster", "Tell which cluster a broker belongs to.")
    parser.add_argument("action", choices=("cluster-id",))
    add_connection_options(parser, "--config", "-c", bootstrap_aliases=("-b",))
    options = parser.parse_args(arguments)
    with connected(options) as client:
        cluster_id = client.ask(DescribeClusterRequest()).cluster_id
    if options.json:
        print_json({"clusterId": cluster_id})
    else:
        print_lines([f"Cluster ID: {cluster_id}"])
    return 0
