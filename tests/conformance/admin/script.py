"""What is asked of both brokers by `test_side_by_side_admin`: admin requests, good and bad, in their order.

A chapter is a list of steps that run on one connection, one after the other; `{t}` is a name of the run's own.
"""

from __future__ import annotations

from tests.conformance.admin import access, cluster, configs, groups, quotas, telemetry

CHAPTERS = {
    "lists of config resources": configs.config_lists,
    "client metrics": configs.client_metrics,
    "configs of groups": configs.group_configs,
    "other configs": configs.other_configs,
    "elections": cluster.elections,
    "features": cluster.features,
    "brokers": cluster.brokers,
    "quorum": cluster.quorum,
    "scram credentials": access.credentials,
    "acls": access.acls,
    "what quotas may be": quotas.quota_refusals,
    "quotas": quotas.quotas,
    "offset deletions": groups.offset_deletions,
    "groups": groups.groups,
    "topics": cluster.topics,
    "telemetry": telemetry.telemetry,
}
