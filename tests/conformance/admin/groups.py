"""Chapters about groups and their offsets."""

from __future__ import annotations

from typing import Any

from tests.conformance.admin.step import Step


def offset_deletions() -> list[Step]:
    """Delete offsets that are and that are not."""

    def delete(group: str, *partitions: tuple[str, list[int]]) -> dict[str, Any]:
        return {
            "group_id": group,
            "topics": [
                {"name": topic, "partitions": [{"partition_index": number} for number in numbers]}
                for topic, numbers in partitions
            ],
        }

    commit = {
        "group_id": "{t}",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [
            {
                "name": "{t}",
                "partitions": [
                    {"partition_index": number, "committed_offset": 5, "committed_metadata": ""} for number in (0, 1)
                ],
            }
        ],
    }
    fetch = {
        "groups": [{"group_id": "{t}", "topics": [{"name": "{t}", "partition_indexes": [0, 1]}]}],
        "require_stable": False,
    }
    return [
        Step("unknown group", "offset_delete", 0, delete("{t}", ("{t}", [0]))),
        Step("no group", "offset_delete", 0, delete("", ("{t}", [0]))),
        Step("commit", "offset_commit", 8, commit),
        Step("nothing", "offset_delete", 0, delete("{t}")),
        Step("no partition", "offset_delete", 0, delete("{t}", ("{t}", []))),
        Step("unknown topic", "offset_delete", 0, delete("{t}", ("{t}-unknown", [0]))),
        Step("unknown partition", "offset_delete", 0, delete("{t}", ("{t}", [0, 9]))),
        Step("negative partition", "offset_delete", 0, delete("{t}", ("{t}", [-1]))),
        Step("left", "offset_fetch", 8, fetch),
        Step("again", "offset_delete", 0, delete("{t}", ("{t}", [0]))),
        Step("several", "offset_delete", 0, delete("{t}", ("{t}-unknown", [0]), ("{t}", [1, 0]), ("", [0]))),
        Step("none left", "offset_fetch", 8, fetch),
        Step("group without offsets", "offset_delete", 0, delete("{t}", ("{t}", [0]))),
    ]


def groups() -> list[Step]:
    """Describe, list and delete groups that are not."""
    return [
        Step("describe unknown, v5", "describe_groups", 5, {"groups": ["{t}", ""]}),
        Step("describe unknown, v6", "describe_groups", 6, {"groups": ["{t}", ""]}),
        Step("describe nothing", "describe_groups", 6, {"groups": []}),
        Step("delete unknown", "delete_groups", 2, {"groups_names": ["{t}", "", "{t}"]}),
        Step("delete nothing", "delete_groups", 2, {"groups_names": []}),
        Step("list by unknown state", "list_groups", 5, {"states_filter": ["Nothing"], "types_filter": []}),
        Step("list by unknown type", "list_groups", 5, {"states_filter": [], "types_filter": ["nothing"]}),
    ]
