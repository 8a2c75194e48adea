"""GRP-11: offsets expire a while after nobody uses them any more, and not before."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cases.conftest import address
from tests.harness.broker import BrokerProcess
from tests.harness.groups import Member, find_coordinator, listed, subscription
from tests.harness.offsets import committed
from tests.harness.raw import RawClient

RETENTION_S = 60
CHECK_S = 5
PROPERTIES = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": str(CHECK_S * 1000),
    "offsets.topic.num.partitions": "1",
}
SLACK_S = 15
"""Two checks and what a loaded machine needs."""
NOTHING = -1


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_grp_11_offsets_expire_a_minute_after_their_last_use(
    broker: BrokerProcess, client: RawClient, connect: Callable[..., RawClient], fresh: Callable[..., str]
) -> None:
    topic = fresh()
    client.create_topic(topic)
    find_coordinator(client, "g")
    simple, live, left = (fresh("group") for _ in range(3))
    protocols = (("range", subscription(topic)),)
    stays, leaves = Member(connect(), live, protocols), Member(connect(), left, protocols)
    began = time.monotonic()
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    answer = client.request(
        "offset_commit",
        2,
        group_id=simple,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=-1,
        topics=[{"name": topic, "partitions": [row]}],
    )
    assert answer.topics[0].partitions[0].error_code == 0
    for member in (stays, leaves):
        member.become_stable()
        assert member.commit(topic, 1) == 0

    def until(second: float, *others: Member) -> None:
        """Let time pass with nothing but heartbeats."""
        while time.monotonic() - began < second:
            assert [member.heartbeat() for member in (stays, *others)] == [0] * (1 + len(others))
            time.sleep(1)

    def offsets(connection: RawClient) -> list[int]:
        return [committed(connection, group, topic)[0] for group in (simple, live, left)]

    until(40, leaves)
    assert leaves.leave() == 0
    emptied = time.monotonic() - began
    until(45)
    assert offsets(client) == [1, 1, 1]
    broker.restart()
    with RawClient(address(broker)) as connection, RawClient(address(broker)) as stays.client:
        find_coordinator(connection, live)
        until(RETENTION_S + 2 * CHECK_S + SLACK_S)
        assert offsets(connection) == [NOTHING, 1, 1], "the group that has become empty is counted from then"
        until(emptied + RETENTION_S - CHECK_S)
        assert offsets(connection) == [NOTHING, 1, 1]
        until(emptied + RETENTION_S + CHECK_S + SLACK_S)
        assert offsets(connection) == [NOTHING, 1, NOTHING]
        groups = listed(connection)
        assert (simple in groups, live in groups, left in groups) == (False, True, False)
