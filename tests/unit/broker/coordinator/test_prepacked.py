"""What is written without the codec is what the codec would write."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.group.records import (
    CommittedOffset,
    OffsetKey,
    offset_record,
    parse_offset_key,
    parse_offset_value,
)
from protocol.codec import encode_bytes
from protocol.records.builder import build_batch, build_pairs
from protocol.stored.group import OffsetCommitKey, OffsetCommitValue

names = st.text(max_size=40)
numbers = st.integers(-(1 << 63), (1 << 63) - 1)
small_numbers = st.integers(-(1 << 31), (1 << 31) - 1)


@settings(max_examples=100, deadline=None)
@given(
    st.builds(OffsetKey, names, names, small_numbers),
    st.builds(
        CommittedOffset,
        numbers,
        small_numbers,
        st.text(max_size=300),
        numbers,
        expire_timestamp_ms=st.just(-1),
        topic_id=st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)),
    ),
)
def test_an_offset_is_written_as_by_the_codec(key: OffsetKey, committed: CommittedOffset) -> None:
    record = offset_record(key, committed)
    stored_key = OffsetCommitKey(group=key.group_id, topic=key.topic, partition=key.partition)
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        topic_id=committed.topic_id,
    )
    assert record.key == b"\x00\x01" + encode_bytes(stored_key, 0)
    assert record.value == b"\x00\x04" + encode_bytes(value, 4)
    assert record.parsed == (
        parse_offset_key(record.key),
        parse_offset_value(record.value, record_offset=committed.record_offset),
    )


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=9000)), min_size=1, max_size=70),
    st.integers(0, 1 << 50),
    st.booleans(),
)
def test_pairs_are_built_as_any_batch(
    pairs: list[tuple[bytes, bytes | None]], timestamp: int, is_transactional: bool
) -> None:
    rest = (
        {"producer_id": 7, "producer_epoch": 3, "base_sequence": 0, "is_transactional": True}
        if is_transactional
        else {}
    )
    rows = [(key, value, (), timestamp) for key, value in pairs]
    built = build_pairs([(*pair, object()) for pair in pairs], timestamp=timestamp, leader_epoch=5, **rest)  # type: ignore[arg-type]
    assert built == build_batch(rows, leader_epoch=5, **rest)  # type: ignore[arg-type]
