"""The hosted partitions follow the metadata, across deletions, restarts and failed directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.metadata.image import ClusterImage, Delta, PartitionImage, TopicImage, partitions_of
from broker.partition.errors import NotLeader, PartitionOffline, UnknownPartition
from broker.partition.internal_log import InternalLog
from broker.partition.manager import FEW_LOGS
from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.harness.hosted import NODE_ID, NOW_MS, OTHER_ID, Hosted, topic_id_of
from tests.harness.wakes import Wakes
from tests.sim.moves import begin, catch_up


def batch(value: bytes = b"v") -> bytearray:
    return build_batch([(b"k", value)], timestamp=NOW_MS)


def dirs_in(path: Path, suffix: str = "") -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir() and entry.name.endswith(suffix))


def test_a_created_topic_is_hosted_with_its_id_leader_and_settings(hosted: Hosted) -> None:
    partition = hosted.create("t", partitions=3, epoch=2, config=LogConfig(max_message_bytes=99))
    assert len(hosted.manager) == 3
    assert [one.tp for one in hosted.manager] == [("t", 0), ("t", 1), ("t", 2)]
    assert (partition.topic_id, partition.leader_epoch, partition.is_leader) == (topic_id_of("t"), 2, True)
    assert partition.log.config.max_message_bytes == 99


def test_replicas_of_other_brokers_are_not_hosted(hosted: Hosted) -> None:
    hosted.create("t", leader=OTHER_ID, replicas=(OTHER_ID,))
    assert len(hosted.manager) == 0
    with pytest.raises(UnknownPartition):
        hosted.manager.get("t", 0)


def test_a_changed_config_reaches_the_log(hosted: Hosted) -> None:
    partition = hosted.create("t")
    hosted.configure("t", LogConfig(retention_ms=5))
    assert partition.log.config.retention_ms == 5


def test_a_change_of_the_broker_reaches_every_log(hosted: Hosted) -> None:
    partitions = [hosted.create(name) for name in ("a", "b")]
    new = LogConfig(max_message_bytes=77)
    hosted.configure_broker("2", new)
    assert {partition.log.config for partition in partitions} == {LogConfig()}
    for name in (str(NODE_ID), ""):
        hosted.configure_broker(name, new)
        assert [partition.log.config for partition in partitions] == [new, new]
        hosted.configure_broker(name, LogConfig())


def test_a_deleted_topic_is_gone_at_once_and_its_files_after_the_brokers_delay(hosted: Hosted, tmp_path: Path) -> None:
    partition = hosted.create("t", config=LogConfig(file_delete_delay_ms=1))
    partition.append(batch())
    waiter = Wakes()
    partition.waiters.add(waiter)
    del hosted.configs["t"]  # the topic's settings go with it; the broker's delay is a minute
    hosted.delete("t")
    assert partition.is_deleted
    assert waiter.changed == {partition}
    with pytest.raises(UnknownPartition):
        hosted.manager.get("t", 0)
    assert len(dirs_in(tmp_path, "-delete")) == 1
    assert hosted.logs.deleted_logs.purge(NOW_MS + 59_999) == 0
    assert hosted.logs.deleted_logs.purge(NOW_MS + 60_000) == 1
    assert dirs_in(tmp_path) == []


def test_a_name_may_come_again_while_its_old_files_are_still_there(hosted: Hosted) -> None:
    hosted.create("t").append(batch())
    hosted.delete("t")
    again = hosted.create("t", incarnation=2)
    assert (again.log.log_end_offset, again.topic_id) == (0, topic_id_of("t", 2))


def restarted(hosted: Hosted, tmp_path: Path) -> Hosted:
    hosted.logs.close()
    return Hosted(tmp_path)


def test_after_a_restart_the_records_are_there_and_the_next_epoch_begins_behind_them(
    hosted: Hosted, tmp_path: Path
) -> None:
    hosted.create("t").append(batch())
    after = restarted(hosted, tmp_path)
    after.start_with({"t": 1}, epoch=1)
    partition = after.manager.get("t", 0)
    partition.append(batch())
    assert (partition.log.high_watermark, partition.log.epoch_entries()) == (2, [(0, 0), (1, 1)])


def test_logs_of_topics_that_went_before_a_crash_are_set_aside_and_do_not_block_their_name(
    hosted: Hosted, tmp_path: Path
) -> None:
    """The deletion was committed, but the crash came before the directories were renamed."""
    hosted.create("gone").append(batch())
    hosted.create("again").append(batch())
    hosted.create("kept").append(batch())
    after = restarted(hosted, tmp_path)
    after.start_with({"again": 2, "kept": 1})
    assert after.manager.get("again", 0).log.log_end_offset == 0
    assert after.manager.get("kept", 0).log.log_end_offset == 1
    assert [name.split(".")[0] for name in dirs_in(tmp_path, "-stray")] == ["again-0", "gone-0"]
    assert after.manager.offline_count == 0


def test_a_partition_whose_directory_is_away_at_the_start_is_offline_and_not_begun_anew(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    for name in ("t", "u"):
        hosted.create(name).append(batch())
    away = hosted.path_of("u").parent
    hosted.logs.close()
    away.rename(tmp_path / "away")
    away.write_bytes(b"no directory")
    after = Hosted(tmp_path / "a", tmp_path / "b")
    after.start_with({"t": 1, "u": 1})
    assert after.manager.get("t", 0).log.log_end_offset == 1
    with pytest.raises(PartitionOffline):
        after.manager.get("u", 0)
    after.lead("u", NODE_ID, 1)  # a change is no reason to begin anew either
    with pytest.raises(PartitionOffline):
        after.manager.get("u", 0)
    assert after.create("new").log.log_end_offset == 0
    after.logs.close()
    away.unlink()
    (tmp_path / "away").rename(away)
    again = Hosted(tmp_path / "a", tmp_path / "b")
    again.start_with({"t": 1, "u": 1, "new": 1})
    assert again.manager.get("u", 0).log.log_end_offset == 1


def test_a_topic_created_anew_while_its_directory_was_away_is_served_when_it_is_back(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    hosted.create("t").append(batch())
    hosted.create("u").append(batch())
    lost = hosted.path_of("u")
    hosted.manager.fail_dir_of(StorageFailure("I/O error", str(lost)))
    hosted.delete("u")
    assert hosted.create("u", incarnation=2).log.log_end_offset == 0
    hosted.logs.close()
    after = Hosted(tmp_path / "a", tmp_path / "b")
    after.start_with({"t": 1, "u": 2})
    assert after.manager.get("u", 0).log.log_end_offset == 0
    assert [name.split(".")[0] for name in dirs_in(lost.parent, "-stray")] == ["u-0"]


def moving(tmp_path: Path) -> Hosted:
    """Host a topic with one record in a, and a whole copy of it in b."""
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    hosted.create("t").append(batch())
    catch_up(hosted.logs, begin(hosted.logs, TopicPartition("t", 0), str(tmp_path / "b")))
    return hosted


def test_a_swap_that_a_crash_has_cut_short_is_finished_where_the_metadata_names_the_copys_directory(
    tmp_path: Path,
) -> None:
    hosted = moving(tmp_path)
    hosted.logs.retire(TopicPartition("t", 0))
    hosted.logs.close(clean=False)
    after = Hosted(tmp_path / "a", tmp_path / "b")
    after.start_with({"t": 1}, directory_id=after.logs.dirs[1].directory_id)
    assert after.path_of("t") == tmp_path / "b" / "t-0"
    assert after.manager.get("t", 0).log.log_end_offset == 1


@pytest.mark.parametrize("named", [0, None])
def test_a_copy_alone_serves_nobody_and_no_empty_log_is_begun_beside_it(tmp_path: Path, named: int | None) -> None:
    hosted = moving(tmp_path)
    shutil.rmtree(hosted.path_of("t"))
    hosted.logs.close(clean=False)
    after = Hosted(tmp_path / "a", tmp_path / "b")
    after.start_with({"t": 1}, directory_id=after.logs.dirs[named].directory_id if named is not None else bytes(16))
    with pytest.raises(PartitionOffline):
        after.manager.get("t", 0)
    assert dirs_in(tmp_path / "a") == []
    assert [name.rpartition("-")[2] for name in dirs_in(tmp_path / "b")] == ["future"]


def test_the_copy_of_a_partition_that_is_offline_goes_with_its_topic(tmp_path: Path) -> None:
    hosted = moving(tmp_path)
    hosted.manager.fail_dir_of(StorageFailure("I/O error", str(tmp_path / "a")))
    assert list(hosted.logs.futures) == [("t", 0)]
    hosted.delete("t")
    assert hosted.logs.futures == {}
    assert [name.rpartition("-")[2] for name in dirs_in(tmp_path / "b")] == ["delete"]


def test_a_new_log_goes_to_the_directory_that_the_metadata_names(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    hosted.start_with({"t": 1}, directory_id=hosted.logs.dirs[1].directory_id)
    assert hosted.path_of("t").parent == tmp_path / "b"


def test_a_failed_directory_takes_its_partitions_along_and_spares_the_others(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    hosted.create("t", partitions=4)
    lost_dir = str(tmp_path / "a")
    lost = [one for one in hosted.manager if one.log.path.startswith(lost_dir)]
    waiter = Wakes()
    lost[0].waiters.add(waiter)
    hosted.manager.fail_dir_of(StorageFailure("I/O error", lost[0].log.path))
    assert len(lost) == 2
    assert (len(hosted.manager), hosted.manager.offline_count) == (2, 2)
    assert waiter.changed == {lost[0]}
    hosted.manager.fail_dir_of(StorageFailure("once more", lost[1].log.path))
    assert hosted.lost_dirs == [lost_dir], "told once"
    for one in lost:
        with pytest.raises(PartitionOffline):
            hosted.manager.get(*one.tp)


def test_where_logs_are_and_were_is_known_by_the_ids_of_directories(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    hosted.create("t", partitions=2)
    ids = [log_dir.directory_id for log_dir in hosted.logs.dirs]
    where = {TopicPartition("t", number): ids[number] for number in range(2)}
    assert hosted.manager.whereabouts(hosted.current) == where
    hosted.manager.fail_dir_of(StorageFailure("I/O error", hosted.logs.dirs[1].path))
    assert hosted.manager.whereabouts(hosted.current) == where, "also where it has failed"
    hosted.delete("t")
    assert hosted.manager.whereabouts(hosted.current) == {}


def test_a_partition_that_nobody_leads_since_the_start_says_so_and_is_not_begun_anew(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path / "a")
    placed = PartitionImage(-1, 4, 0, (NODE_ID,), (NODE_ID,), (bytes([9]) * 16,))
    topic = TopicImage("t", topic_id_of("t"), (placed,))
    image = ClusterImage("cluster", {"t": topic}, {topic.topic_id: topic}, hosted.current.brokers)
    every = tuple(partitions_of(topic))
    hosted.manager.publish(Delta(created_topics=(topic,), created_partitions=every), image)
    for _ in range(2):
        with pytest.raises(NotLeader) as raised:
            hosted.manager.get("t", 0)
        assert (raised.value.leader_id, raised.value.leader_epoch) == (-1, 4)
        assert (len(hosted.manager), hosted.manager.offline_count) == (0, 1)
        hosted.manager.publish(Delta(changed_partitions=every), image)
    assert dirs_in(tmp_path / "a") == []


def test_a_directory_that_vanishes_is_noticed_when_a_log_is_to_be_created_in_it(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path / "a", tmp_path / "b")
    hosted.create("t", partitions=4)
    shutil.rmtree(tmp_path / "a")
    assert hosted.create("u", partitions=2).log.path.startswith(str(tmp_path / "b"))
    assert not (tmp_path / "a").exists()
    assert hosted.lost_dirs == [str(tmp_path / "a")]
    assert (len(hosted.manager), hosted.manager.offline_count) == (4, 2)


def test_a_deletion_that_fails_on_disk_does_not_stop_the_metadata(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller takes a publisher that raises as its own failure."""
    hosted.create("t")
    hosted.create("u")

    def refuse(*_: object) -> None:
        raise OSError(5, "I/O error")

    monkeypatch.setattr(type(hosted.fs), "rename", refuse)
    hosted.delete("t")
    assert hosted.manager.find(("t", 0)) is None
    with pytest.raises(PartitionOffline):
        hosted.manager.get("u", 0)


def test_a_partition_that_no_directory_takes_is_offline(hosted: Hosted) -> None:
    hosted.manager.fail_dir_of(StorageFailure("I/O error", hosted.logs.dirs[0].path))
    hosted.create("t")
    with pytest.raises(PartitionOffline):
        hosted.manager.get("t", 0)
    hosted.delete("t")
    with pytest.raises(UnknownPartition):
        hosted.manager.get("t", 0)


async def test_a_coordinators_log_is_scanned_batch_by_batch_from_its_start(hosted: Hosted) -> None:
    hosted.create("__consumer_offsets", epoch=3)
    log = InternalLog("__consumer_offsets", hosted.manager, hosted.pools.io)
    assert [await log.append(0, bytes(batch(b"%d" % n))) for n in range(3)] == [1, 2, 3]
    assert [int.from_bytes(data[:8], "big") async for data in log.scan(0)] == [0, 1, 2]
    hosted.manager.get("__consumer_offsets", 0).log.increment_log_start_offset(2)
    assert [int.from_bytes(data[:8], "big") async for data in log.scan(0)] == [2]
    assert (log.leader_epoch(0), log.leader_epoch(9)) == (3, -1)


def test_nothing_is_hosted_before_the_first_image(hosted: Hosted) -> None:
    assert (len(hosted.manager), hosted.manager.offline_count, list(hosted.manager)) == (0, 0, [])


def new_topic(name: str, partitions: int) -> tuple[Delta, ClusterImage]:
    placed = PartitionImage(NODE_ID, 0, 0, (NODE_ID,), (NODE_ID,), (bytes(16),))
    topic = TopicImage(name, topic_id_of(name), (placed,) * partitions)
    image = ClusterImage("cluster", topics_by_name={name: topic}, topics_by_id={topic.topic_id: topic})
    return Delta(created_topics=(topic,), created_partitions=tuple(partitions_of(topic))), image


def test_many_logs_can_be_created_in_a_thread_before_they_are_published(hosted: Hosted) -> None:
    delta, image = new_topic("many", FEW_LOGS + 1)
    create = hosted.manager.missing_logs(delta, image)
    assert create is not None
    create()
    created = dict(hosted.logs.logs)
    assert len(created) == FEW_LOGS + 1
    assert hosted.manager.find(("many", 0)) is None
    hosted.manager.publish(delta, image)
    assert {partition.tp: partition.log for partition in hosted.manager} == created
    assert hosted.manager.missing_logs(delta, image) is None


def test_few_logs_are_left_to_publishing(hosted: Hosted) -> None:
    delta, image = new_topic("few", FEW_LOGS)
    assert hosted.manager.missing_logs(delta, image) is None
    hosted.manager.publish(delta, image)
    assert len(hosted.manager) == FEW_LOGS


def test_logs_that_no_directory_takes_are_reported_by_publishing(hosted: Hosted) -> None:
    hosted.manager.fail_dir_of(StorageFailure("I/O error", hosted.logs.dirs[0].path))
    delta, image = new_topic("many", FEW_LOGS + 1)
    create = hosted.manager.missing_logs(delta, image)
    assert create is not None
    create()
    hosted.manager.publish(delta, image)
    assert (len(hosted.manager), hosted.manager.offline_count) == (0, FEW_LOGS + 1)


def test_a_topic_whose_settings_let_no_log_be_made_is_offline_and_harms_no_other(hosted: Hosted) -> None:
    assert hosted.create("small", config=LogConfig(segment_index_bytes=4)) is None
    with pytest.raises(PartitionOffline):
        hosted.manager.get("small", 0)
    assert hosted.lost_dirs == []
    assert hosted.create("t") is not None
