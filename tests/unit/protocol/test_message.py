"""Declarations: defaults, equality, representation, and the tables that must agree with the classes."""

import dataclasses

import pytest

from protocol.api_keys import CONTROLLER_ONLY
from protocol.message import field, message, struct_for
from protocol.messages import REQUESTS, RESPONSES, VERSIONS
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.primitives import INT32, STRING, array
from protocol.stored.cluster import RECORDS


def test_every_field_has_a_default_and_lists_are_fresh() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic())
    assert second.topics == []
    assert first.replica_state is not second.replica_state
    assert second.max_bytes == 0x7FFFFFFF


def test_positional_and_keyword_arguments_fill_fields_in_order() -> None:
    assert FetchTopic("t", partitions=[FetchPartition(3)]).partitions[0].partition == 3
    with pytest.raises(TypeError):
        FetchTopic(no_such_field=1)  # type: ignore[call-arg]


def test_messages_compare_by_value_and_are_not_hashable() -> None:
    assert FetchTopic(topic="a") == FetchTopic(topic="a")
    assert FetchTopic(topic="a") != FetchTopic(topic="b")
    assert FetchTopic() != FetchPartition()
    with pytest.raises(TypeError):
        hash(FetchTopic())


def test_messages_are_dataclasses_with_slots() -> None:
    changed = dataclasses.replace(FetchTopic(topic="a"), topic="b")  # type: ignore[type-var]
    assert changed == FetchTopic(topic="b")
    with pytest.raises(AttributeError):
        changed.topik = "c"  # type: ignore[attr-defined]


def test_repr_names_the_fields() -> None:
    assert repr(FetchTopic(topic="a")).startswith("FetchTopic(topic='a', topic_id=")


def test_a_field_declares_where_null_begins() -> None:
    @message
    class Sample:
        MIN_VERSION, MAX_VERSION, FLEXIBLE_SINCE = 0, 1, 1

        names: list[str] | None = field(array(STRING), nullable_since=1)
        count: int = field(INT32, since=1)

    assert struct_for(Sample, 1).build(Sample(names=None, count=2)) == b"\0\0\0\0\x02\0"
    assert struct_for(Sample, 0).build(Sample(names=["a"], count=2)) == b"\0\0\0\x01\0\x01a"
    with pytest.raises(ValueError, match="null is not allowed"):
        struct_for(Sample, 0).build(Sample(names=None))


def test_the_version_table_is_what_the_classes_say() -> None:
    assert not VERSIONS.keys() & CONTROLLER_ONLY
    for key, versions in VERSIONS.items():
        for message_type in (REQUESTS[key], RESPONSES[key]):
            assert key == message_type.API_KEY
            assert (versions.first, versions.last) == (message_type.MIN_VERSION, message_type.MAX_VERSION)
            assert versions.flexible_since == message_type.FLEXIBLE_SINCE


def test_an_unknown_key_has_no_class() -> None:
    with pytest.raises(KeyError):
        REQUESTS[4]  # type: ignore[index]


def test_controllers_keep_their_apis_to_themselves() -> None:
    assert {int(key) for key in CONTROLLER_ONLY} == {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}


def test_metadata_record_types_are_the_numbers_on_disk() -> None:
    numbers = {record.__name__: number for number, record in RECORDS.items()}
    assert numbers["TopicRecord"] == 2
    assert numbers["PartitionRecord"] == 3
    assert numbers["ConfigRecord"] == 4
    assert numbers["RegisterBrokerRecord"] == 0
    assert len(RECORDS) == 26
