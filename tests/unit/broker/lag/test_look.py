"""Lag in offsets and in seconds, of groups that follow, stop, catch up, and of offsets that make little sense."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import broker.lag.look as look_module
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.partition.partition import Marker
from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.producers.verification import NOT_ASKED
from tests.harness.hosted import NOW_MS, OTHER_ID
from tests.unit.broker.lag.conftest import Bed

AT = ("g", "t", "0")


async def test_lag_grows_while_a_consumer_is_dead_and_falls_when_it_catches_up(bed: Bed) -> None:
    bed.hosted.create("t")
    for _ in range(60):
        bed.produce("t", 10)
        bed.pass_seconds(10)
    bed.commit("g", "t", 300)  # appended 300 seconds ago
    assert await bed.seconds() == {AT: 300.0}
    bed.pass_seconds(60)
    assert await bed.seconds() == {AT: 360.0}
    bed.commit("g", "t", 590)
    assert await bed.seconds() == {AT: 70.0}
    bed.commit("g", "t", 600)
    assert await bed.seconds() == {AT: 0.0}
    bed.pass_seconds(1000)
    assert await bed.seconds() == {AT: 0.0}
    bed.produce("t")
    assert await bed.seconds() == {AT: 0.0}
    bed.pass_seconds(5)
    assert await bed.seconds() == {AT: 5.0}


async def test_lag_in_offsets_is_what_lies_between_the_commit_and_the_high_watermark(bed: Bed) -> None:
    bed.hosted.create("t", partitions=3)
    bed.produce("t", 10)
    bed.produce("t", 4, partition=1)
    bed.commit("g", "t", 3)
    bed.commit("g", "t", 4, partition=1)
    found = await bed.look()
    committed = dict(zip(found.partition_labels, found.committed, strict=True))
    lags = dict(zip(found.partition_labels, found.lags, strict=True))
    assert committed == {("g", "t", "0"): 3, ("g", "t", "1"): 4, ("g", "t", "2"): -1}
    assert lags == {("g", "t", "0"): 7, ("g", "t", "1"): 0, ("g", "t", "2"): -1}
    assert (found.topic_labels, found.topic_committed, found.topic_lags) == ([("g", "t")], [7], [7])
    assert (found.group_labels, found.max_lags) == ([("g",)], [7])


async def test_lag_ends_where_a_scheduled_topic_holds_records_back(bed: Bed) -> None:
    """As it does for whoever asks for the end offset."""
    bed.hosted.create("t", config=LogConfig(delivery_mode="scheduled"))
    bed.produce("t", 5, timestamp=NOW_MS - 20_000)
    bed.produce("t", 3, timestamp=NOW_MS + 60_000)
    bed.produce("t", 2, timestamp=NOW_MS - 10_000)  # due, but behind the others
    bed.commit("g", "t", 5)
    assert await bed.lags() == {AT: 0}
    assert await bed.seconds() == {AT: 0.0}
    bed.hosted.timers.pass_ms(60_250)
    assert await bed.lags() == {AT: 5}
    bed.commit("g", "t", 8)
    bed.pass_seconds(9.75)
    assert await bed.lags() == {AT: 2}
    assert await bed.seconds() == {AT: 70.0}  # it has appeared since the first look, that is all that is known


async def test_a_commit_beyond_the_end_is_a_negative_lag_and_no_seconds(bed: Bed) -> None:
    bed.hosted.create("t")
    bed.produce("t", 3)
    bed.commit("g", "t", 10)
    bed.pass_seconds(60)
    assert await bed.lags() == {AT: -7}
    assert await bed.seconds() == {AT: 0.0}


async def test_what_was_deleted_counts_as_lag_but_seconds_count_from_the_log_start(bed: Bed) -> None:
    partition = bed.hosted.create("t")
    for _ in range(10):
        bed.produce("t")
        bed.pass_seconds(10)
    bed.commit("g", "t", 0)
    partition.delete_records(6)
    assert await bed.lags() == {AT: 10}
    assert await bed.seconds() == {AT: 40.0}
    partition.delete_records(10)
    assert await bed.lags() == {AT: 10}
    assert await bed.seconds() == {AT: 0.0}


async def test_a_deleted_topic_and_a_deleted_group_have_no_series(bed: Bed) -> None:
    bed.hosted.create("t")
    bed.hosted.create("kept")
    bed.produce("t")
    bed.produce("kept")
    bed.commit("g", "t", 0)
    bed.commit("g", "kept", 0)
    assert await bed.lags() == {AT: 1, ("g", "kept", "0"): 1}
    bed.hosted.delete("t")
    assert await bed.lags() == {("g", "kept", "0"): 1}
    del bed.groups["g"]
    bed.commit("h", "kept", None)
    found = await bed.look()
    assert (found.partition_labels, found.topic_labels, found.group_labels) == ([], [], [("h",)])


async def test_a_partition_that_another_broker_leads_has_a_commit_but_no_lag(bed: Bed) -> None:
    bed.hosted.create("t")
    bed.produce("t")
    bed.commit("g", "t", 0)
    bed.hosted.lead("t", OTHER_ID, 1)
    found = await bed.look()
    assert (found.partition_labels, found.committed, found.lags, found.seconds) == ([AT], [0], [None], [None])
    assert (found.max_lags, found.max_seconds) == ([None], [None])


async def test_groups_show_members_state_and_their_newest_commit(bed: Bed) -> None:
    bed.hosted.create("t", partitions=2)
    bed.commit("g", "t", 0)
    bed.pass_seconds(3)
    bed.commit("g", "t", 0, partition=1)
    bed.pass_seconds(3)
    found = await bed.look()
    assert (found.group_labels, found.members, found.epochs) == ([("g",)], [0], [1])
    assert found.state_labels == [("g", "consumer", "Empty")]
    assert found.commit_seconds == [NOW_MS / 1000 + 3]
    assert found.counts == Counter({("consumer", "Empty"): 1})


async def test_the_first_record_of_each_partition_is_dated_until_none_is_left(bed: Bed) -> None:
    partition = bed.hosted.create("t", partitions=2)
    bed.produce("t")
    bed.pass_seconds(5)
    bed.produce("t")
    found = await bed.look()
    assert (found.oldest_labels, found.oldest_seconds) == ([("t", "0")], [NOW_MS / 1000])
    partition.delete_records(1)
    found = await bed.look()
    assert found.oldest_seconds == [NOW_MS / 1000 + 5]
    partition.delete_records(2)
    assert (await bed.look()).oldest_labels == []


async def test_times_from_the_future_are_cut_to_when_the_record_was_seen(bed: Bed) -> None:
    bed.hosted.create("t")
    bed.commit("g", "t", 0)
    bed.produce("t", timestamp=NOW_MS + 1_000_000)
    assert await bed.seconds() == {AT: 0.0}
    bed.pass_seconds(30)
    assert await bed.seconds() == {AT: 30.0}


async def test_records_of_last_year_that_are_loaded_today_wait_since_today(bed: Bed) -> None:
    bed.hosted.create("t")
    bed.produce("t", timestamp=5)
    bed.commit("g", "t", 1)
    assert await bed.seconds() == {AT: 0.0}
    bed.pass_seconds(15)
    bed.produce("t", timestamp=6)
    assert await bed.seconds() == {AT: 15.0}, "it came after the last look"
    bed.pass_seconds(15)
    assert await bed.seconds() == {AT: 30.0}


async def test_a_topic_that_stamps_its_records_is_exact_whatever_producers_say(bed: Bed) -> None:
    bed.hosted.create("t", config=LogConfig(message_timestamp_type="LogAppendTime"))
    bed.produce("t", timestamp=7)
    bed.commit("g", "t", 0)
    bed.pass_seconds(12.5)
    assert await bed.seconds() == {AT: 12.5}


async def test_seconds_are_those_of_the_batch_in_sealed_segments_too(bed: Bed) -> None:
    bed.hosted.create("t", config=LogConfig(segment_bytes=1000, index_interval_bytes=200))
    for _ in range(100):
        bed.produce("t", 3)
        bed.pass_seconds(1)
    assert bed.hosted.manager.get("t", 0).log.segment_count > 5
    for offset in range(0, 300, 7):
        bed.commit("g", "t", offset)
        assert await bed.seconds() == {AT: 100.0 - offset // 3}


async def test_records_of_an_open_transaction_count_as_for_any_reader(bed: Bed) -> None:
    partition = bed.hosted.create("t")
    bed.commit("g", "t", 0)
    batch = build_batch(
        [(None, b"a")], timestamp=NOW_MS, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    with partition.log.transactions.in_hand(NOT_ASKED):
        partition.append(bytearray(batch))
    bed.pass_seconds(2)
    assert partition.log.last_stable_offset == 0
    assert await bed.lags() == {AT: 1}
    assert await bed.seconds() == {AT: 2.0}
    partition.append_marker(Marker(1, 0, True, 0, 0))
    assert await bed.lags() == {AT: 2}, "the marker has an offset, too"


async def test_beyond_the_bound_series_are_left_out_but_counted_in_sums_and_maxima(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "MAX_SERIES", 3)
    bed.hosted.create("t", partitions=5)
    for partition in range(5):
        bed.produce("t", partition + 1, partition=partition)
        bed.pass_seconds(1)
    for partition in range(4, -1, -1):
        bed.commit("g", "t", 0, partition=partition)
    found = await bed.look()
    assert (len(found.committed), len(found.lags), len(found.seconds)) == (3, 3, 3)
    assert found.left_out == {"groups": 0, "topics": 0, "partitions": 2}
    assert (found.topic_lags, found.max_lags, found.max_seconds) == ([15], [5], [5.0])


async def test_of_very_many_topics_of_groups_some_are_left_out(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_module, "MAX_SERIES", 2)
    for topic in "tuvw":
        bed.hosted.create(topic)
        bed.produce(topic)
        bed.commit("g", topic, 0)
    found = await bed.look()
    assert (len(found.topic_labels), found.left_out["topics"], found.max_lags) == (2, 2, [1])


async def test_of_very_many_groups_those_with_members_are_shown_and_all_are_counted(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "MAX_GROUPS", 2)
    bed.hosted.create("t")
    for group in "abcd":
        bed.commit(group, "t", 0)
    bed.groups["c"].put(ConsumerMember("m"))
    found = await bed.look()
    assert found.group_labels == [("c",), ("a",)]
    assert [labels[0] for labels in found.partition_labels] == ["c", "a"]
    assert found.left_out == {"groups": 2, "topics": 0, "partitions": 0}
    assert sum(found.counts.values()) == 4


async def test_looks_that_are_asked_for_together_are_one(bed: Bed) -> None:
    bed.hosted.create("t")
    bed.produce("t")
    bed.commit("g", "t", 0)
    asked = 0

    def shards():
        nonlocal asked
        asked += 1
        return [bed.shard]

    looks = (bed.watch.look(bed.hosted.current, shards, with_first_records=False) for _ in range(3))
    await asyncio.gather(*looks)
    assert asked == 1
    assert bed.watch.latest.lags == [1]
    await bed.watch.look(bed.hosted.current, shards, with_first_records=False)
    assert asked == 2


async def test_groups_that_change_during_a_look_do_no_harm(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.hosted.create("t", partitions=4)
    bed.hosted.create("u")
    monkeypatch.setattr(look_module, "PARTITIONS_A_STEP", 1)
    for group in "abc":
        for partition in range(4):
            bed.commit(group, "t", 0, partition=partition)
        bed.commit(group, "u", 0)

    real_find = bed.hosted.manager.find

    def find(key: tuple[str, int]):
        bed.commit("a", "u", None)
        bed.groups.pop("b", None)
        return real_find(key)

    monkeypatch.setattr(bed.hosted.manager, "find", find)
    found = await bed.look()
    assert ("c", "t", "0") in found.partition_labels


async def test_nothing_is_looked_at_any_more_once_the_logs_are_about_to_be_closed(bed: Bed) -> None:
    bed.hosted.create("t")
    bed.produce("t")
    bed.commit("g", "t", 0)
    before = await bed.look()
    await bed.watch.close()
    bed.produce("t")
    assert await bed.look() is before
