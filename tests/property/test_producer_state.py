"""Producer state: rebuilt by replay, or from a snapshot and replay, it answers as the one that lived through it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch import parse_header
from protocol.records.builder import build_batch
from protocol.records.control import build_marker, parse_marker
from storage.errors import ProducerRefused
from storage.producers.snapshot import decode_snapshot, encode_snapshot
from storage.producers.state import ProducerStateManager
from storage.types import AppendOrigin, TopicPartition

actions = st.lists(
    st.tuples(
        st.sampled_from(
            ["plain", "next", "next", "next", "again", "transactional", "transactional", "commit", "abort"]
        ),
        st.integers(1, 3),  # producer id
        st.integers(0, 2),  # epoch
        st.integers(1, 4),  # records
    ),
    max_size=40,
)


def fresh() -> ProducerStateManager:
    return ProducerStateManager(TopicPartition("orders", 0))


def run(state, steps):
    """Drive a log through the steps; returns its accepted batches and the offsets each producer's batches got."""
    batches, offsets, end, last = [], {}, 0, {}
    for kind, producer_id, epoch, count in steps:
        origin, marker = AppendOrigin.CLIENT, None
        common = {"base_offset": end, "timestamp": 1000 + end}
        if kind == "plain":
            batch = build_batch([(b"k", b"v")] * count, **common)
        elif kind in ("commit", "abort"):
            origin = AppendOrigin.COORDINATOR
            batch = build_marker(
                is_abort=kind == "abort", producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=1, **common
            )
            marker = parse_marker(batch)
        else:
            key = (producer_id, epoch)
            sequence = last.get(key, 0)
            if kind == "again" and key in offsets:
                sequence, count = offsets[key][-1][:2]
            batch = build_batch(
                [(b"k", b"v")] * count,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=kind == "transactional",
                **common,
            )
        header = parse_header(batch)
        before = encode_snapshot(state.producers.values())
        try:
            duplicate = state.check(header, origin, marker)
        except ProducerRefused:
            duplicate = header
        assert encode_snapshot(state.producers.values()) == before, "a check changes nothing"
        if duplicate is None:
            state.append(header, marker)
            batches.append(batch)
            if header.base_sequence >= 0:
                last[producer_id, epoch] = header.base_sequence + count
                offsets.setdefault((producer_id, epoch), []).append((header.base_sequence, count, end))
            end = header.next_offset
        elif duplicate is not header:
            assert (header.base_sequence, count, duplicate.first_offset) in offsets[producer_id, epoch][-5:]
    return batches


def summary(state):
    return (
        encode_snapshot(state.producers[producer_id] for producer_id in sorted(state.producers)),
        state.first_undecided_offset,
        state.map_end_offset,
    )


@settings(max_examples=80, deadline=None)
@given(steps=actions)
def test_replay_gives_the_same_state(steps):
    lived, replayed = fresh(), fresh()
    batches = run(lived, steps)
    list(replayed.replay(b"".join(batches)))
    assert summary(replayed) == summary(lived)
    assert replayed.first_unstable_offset == lived.first_unstable_offset
    assert {key: list(entry.batches) for key, entry in replayed.producers.items()} == {
        key: list(entry.batches) for key, entry in lived.producers.items()
    }


@settings(max_examples=80, deadline=None)
@given(steps=actions, cut=st.integers(0, 40))
def test_a_snapshot_and_the_rest_give_the_same_state(steps, cut):
    lived, half, resumed = fresh(), fresh(), fresh()
    batches = run(lived, steps)
    list(half.replay(b"".join(batches[:cut])))
    entries = decode_snapshot(encode_snapshot(half.producers.values()))
    resumed.load(entries, offset=half.map_end_offset, now_ms=0)
    list(resumed.replay(b"".join(batches[cut:])))
    assert summary(resumed) == summary(lived)


@settings(max_examples=60, deadline=None)
@given(steps=actions)
def test_the_stable_offset_never_passes_an_open_transaction(steps):
    state = fresh()
    run(state, steps)
    opened = [entry.current_txn_first_offset for entry in state.producers.values() if entry.has_open_transaction]
    assert state.first_undecided_offset == min(opened, default=None)
    state.on_high_watermark(state.map_end_offset)
    assert state.first_unstable_offset == min(opened, default=None)
