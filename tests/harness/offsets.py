"""Commit and fetch offsets as a simple consumer does."""

from tests.harness.raw import RawClient, eventually


def commit(
    client: RawClient, group: str, topic: str, offset: int, *, partition: int = 0, epoch: int = -1, metadata: str = ""
) -> None:
    """Commit as a simple consumer; retries while the coordinator is starting."""
    row = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": metadata,
    }

    def send() -> bool:
        if client.request("find_coordinator", 1, key=group, key_type=0).error_code:
            return False
        answer = client.request(
            "offset_commit",
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": topic, "partitions": [row]}],
        )
        code = answer.topics[0].partitions[0].error_code
        assert code in (0, 14, 15, 16), code
        return code == 0

    eventually(send, what=f"commit of {group}")


def committed(client: RawClient, group: str, topic: str) -> tuple[int, int, str]:
    """Fetch what a group has committed: offset, leader epoch, metadata."""

    def ask():
        if client.request("find_coordinator", 1, key=group, key_type=0).error_code:
            return None
        wanted = [{"name": topic, "partition_indexes": [0]}]
        answer = client.request("offset_fetch", 7, group_id=group, topics=wanted, require_stable=True)
        return answer if answer.error_code == 0 else None

    [topic_row] = eventually(ask, what=f"offsets of {group}").topics
    [row] = topic_row.partitions
    assert row.error_code == 0, row
    return row.committed_offset, row.committed_leader_epoch, row.metadata
