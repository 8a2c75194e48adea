"""Tables of groups have the columns of Kafka's tool, as wide as they must be."""

from __future__ import annotations

from broker.cli.group_tables import Row, assignment, list_table, members_table, offsets_table, remark, state_table
from broker.client.cluster import Broker, TopicPartition
from broker.client.groups import Group, Listed, Member

PARTITION = TopicPartition("a-topic-with-a-long-name", 3)


def group(*members: Member, state: str = "Stable", epoch: int | None = None) -> Group:
    return Group("g", Broker(1, "host", 9092, None), "Classic", state, "", list(members), epoch, epoch)


def test_a_column_is_as_wide_as_its_longest_cell():
    member = Member("m" * 20, "", "client", "/127.0.0.1", [PARTITION])
    _, head, row, other = offsets_table(
        "g", [Row(PARTITION, 5, 2, 7, member), Row(PARTITION, None, None, None, None)], is_verbose=True
    )
    assert head.index("PARTITION") == row.index("3") == 16 + len(PARTITION.topic) + 1
    assert row.split() == ["g", PARTITION.topic, "3", "5", "2", "7", "5", "m" * 20, "/127.0.0.1", "client"]
    assert other.split() == ["g", PARTITION.topic, "3", *"-------"]
    assert not head.endswith(" ")


def test_a_list_shows_what_is_asked_for():
    rows = [Listed("g", "consumer", "Empty", "Classic")]
    assert [line.split() for line in list_table(rows, with_type=True, with_state=False)] == [
        ["GROUP", "TYPE"],
        ["g", "Classic"],
    ]
    assert [line.split() for line in list_table([], with_type=True, with_state=True)] == [["GROUP", "TYPE", "STATE"]]


def test_static_members_and_a_migration_bring_columns_along():
    plain = Member("a", "", "c", "h", [])
    static = Member("b", "instance", "c", "h", [])
    assert "GROUP-INSTANCE-ID" not in members_table(group(plain), is_verbose=False)[1]
    assert "GROUP-INSTANCE-ID" in members_table(group(plain, static), is_verbose=False)[1]
    old, new = (plain._replace(is_upgraded=upgraded) for upgraded in (False, True))
    assert "UPGRADED" not in members_table(group(new, new), is_verbose=True)[1]
    assert [line.split()[-1] for line in members_table(group(old, new), is_verbose=True)[1:]] == [
        "UPGRADED",
        "false",
        "true",
    ]


def test_a_state_names_the_coordinator_and_no_assignor_where_there_is_none():
    assert state_table(group(), is_verbose=False)[2].split() == ["g", "host:9092", "(1)", "-", "Stable", "0"]
    assert state_table(group(epoch=4), is_verbose=True)[2].split()[-3:] == ["4", "4", "0"]


def test_an_assignment_lists_partitions_by_topic():
    assert assignment([TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 2)]) == "a:2,10;b:1"
    assert assignment([]) is None


def test_only_states_that_explain_something_are_remarked_upon():
    assert remark("g", "Stable") is None
    assert remark("g", "Empty") == "Consumer group 'g' has no active members."
    assert remark("g", "Reconciling") == "Warning: Consumer group 'g' is rebalancing."
