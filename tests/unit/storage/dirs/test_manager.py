import os
import shutil
from contextlib import nullcontext

import pytest

from config.views import LogConfig
from protocol.uuids import format_uuid
from storage.dirs.errors import DuplicateLog, InconsistentDirs, NoUsableDir
from storage.dirs.manager import LogManager
from storage.errors import DirLocked, StorageFailure
from storage.types import TopicPartition
from tests.sim.logs import append

CONFIG = LogConfig()
TOPIC_ID = bytes(range(16))


@pytest.fixture
def manager_of(fs, clock, rng):
    """Start a manager over directories; every call is a start of the broker."""
    started = []

    def start(*paths, load=True) -> LogManager:
        manager = LogManager(fs, clock, rng, [str(path) for path in paths])
        started.append(manager)
        manager.open_dirs(1)
        if load:
            manager.load_all(lambda tp: CONFIG)
        return manager

    yield start
    for manager in started:
        manager.close(clean=False)


def kill(manager: LogManager) -> None:
    manager.close(clean=False)


def test_a_fresh_directory_is_formatted_and_found_again(manager_of, tmp_path):
    manager = manager_of(tmp_path / "deep" / "a")
    first = manager.dirs[0].properties
    assert len(first.cluster_id) == 22
    assert first.node_id == 1
    manager.close()
    assert (tmp_path / "deep/a/.kafka_cleanshutdown").exists()
    again = manager_of(tmp_path / "deep/a")
    assert again.dirs[0].properties == first
    assert again.dirs[0].was_clean
    assert not (tmp_path / "deep/a/.kafka_cleanshutdown").exists()
    kill(again)
    assert not manager_of(tmp_path / "deep/a").dirs[0].was_clean


def test_only_fresh_directories_take_the_cluster_id_that_is_wanted(fs, clock, rng, tmp_path):
    def cluster_of(wanted: str | None, *, is_refused: bool = False) -> str:
        manager = LogManager(fs, clock, rng, [str(tmp_path / "a")])
        found = manager.open_dirs(1, wanted)
        if not is_refused:
            manager.load_all(lambda tp: CONFIG)
        manager.close()
        return found

    assert cluster_of("refused", is_refused=True) == "refused"
    assert cluster_of("wanted") == "wanted"
    assert cluster_of("another") == "wanted"
    assert cluster_of(None) == "wanted"


def test_logs_survive_clean_and_unclean_stops(manager_of, tmp_path):
    tp = TopicPartition("my.topic-1", 3)
    manager = manager_of(tmp_path)
    log = manager.create(tp, TOPIC_ID, CONFIG)
    append(log, 5)
    log.increment_log_start_offset(2)
    manager.close()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\nmy.topic-1 3 5\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_bytes() == b"0\n1\nmy.topic-1 3 2\n"
    assert (tmp_path / "replication-offset-checkpoint").read_bytes() == b"0\n1\nmy.topic-1 3 5\n"
    manager = manager_of(tmp_path)
    log = manager.logs[tp]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (2, 5, 5, 5)
    assert log.topic_id == TOPIC_ID
    append(log)
    kill(manager)
    log = manager_of(tmp_path).logs[tp]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (2, 5, 6, 5)


@pytest.mark.parametrize("name", ["recovery-point-offset", "log-start-offset", "replication-offset", "cleaner-offset"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"9\n1\nt 0 3\n", b"0\n7\nt 0 3\n", b"0\n1\ngone 0 3\n"])
def test_damaged_checkpoints_cost_no_records(manager_of, tmp_path, name, content):
    tp = TopicPartition("t", 0)
    manager = manager_of(tmp_path)
    append(manager.create(tp, TOPIC_ID, CONFIG), 5)
    manager.close()
    (tmp_path / f"{name}-checkpoint").write_bytes(content)
    manager = manager_of(tmp_path)
    log = manager.logs[tp]
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    manager.close()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\nt 0 5\n"


def test_a_locked_directory_is_named_and_a_stale_lock_file_means_nothing(manager_of, tmp_path):
    manager = manager_of(tmp_path)
    with pytest.raises(DirLocked, match=str(tmp_path)):
        manager_of(tmp_path)
    kill(manager)
    assert (tmp_path / ".lock").exists()
    assert manager_of(tmp_path).dirs[0].is_online


def test_spellings_of_one_directory_are_one(manager_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    manager = manager_of(f"{tmp_path}/A/", "./B")
    assert [log_dir.path for log_dir in manager.dirs] == [f"{tmp_path}/A", f"{tmp_path}/B"]
    for partition in range(4):
        append(manager.create(TopicPartition("t", partition), TOPIC_ID, CONFIG))
    assert {len(os.listdir(tmp_path / name)) for name in "AB"} == {4}
    manager.close()
    manager = manager_of(f"{tmp_path}/A", f"{tmp_path}/B")
    assert len(manager.logs) == 4
    kill(manager)
    with pytest.raises(InconsistentDirs, match="twice"):
        manager_of(f"{tmp_path}/A", f"{tmp_path}/A/")


def test_foreign_entries_are_left_alone(manager_of, tmp_path):
    for name in ("lost+found", "other", ".snapshot", "a_b", "x-y", "t-01"):
        (tmp_path / name).mkdir(mode=0o700)
    for name in ("README", "x.log"):
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "dangling").symlink_to("/nonexistent")
    before = sorted(os.listdir(tmp_path))
    manager = manager_of(tmp_path)
    assert manager.logs == {}
    manager.create(TopicPartition("t", 0), TOPIC_ID, CONFIG)
    manager.delete(TopicPartition("t", 0))
    manager.deleted_logs.purge(1 << 60)
    manager.close()
    assert set(before) <= set(os.listdir(tmp_path))


def test_a_deleted_log_is_renamed_at_once_and_unlinked_after_the_delay(manager_of, tmp_path, clock):
    tp = TopicPartition("t", 0)
    manager = manager_of(tmp_path)
    log = manager.create(tp, TOPIC_ID, CONFIG)
    append(log)
    found = log.read(0, max_bytes=1000, bound=1, min_one_batch=True)
    manager.delete(tp, delay_ms=60_000)
    assert tp not in manager.logs
    (name,) = [name for name in os.listdir(tmp_path) if name.startswith("t-0")]
    assert name.endswith("-delete")
    manager.deleted_logs.purge(clock.now + 59_999)
    assert (tmp_path / name).exists()
    assert manager.deleted_logs.purge(clock.now + 60_000) == 1
    assert not (tmp_path / name).exists()
    assert len(found.region.read()) == found.size
    found.region.release()
    assert manager.create(tp, TOPIC_ID, CONFIG).log_end_offset == 0


def test_deletions_left_by_a_crash_are_finished(manager_of, tmp_path):
    leftover = tmp_path / f"my.topic-1-0.{'0a' * 16}-delete"
    leftover.mkdir()
    (leftover / "00000000000000000000.log").write_bytes(b"")
    manager = manager_of(tmp_path)
    assert manager.logs == {}
    manager.deleted_logs.purge(1 << 60)
    assert not leftover.exists()


def test_deletions_left_by_a_crash_wait_until_no_directory_is_away(manager_of, tmp_path):
    """A swap may have retired the log, and the copy in the other directory would be the only one besides."""
    leftover = tmp_path / "a" / f"t-0.{'0a' * 16}-delete"
    leftover.mkdir(parents=True)
    (leftover / "00000000000000000000.log").write_bytes(b"records")
    (tmp_path / "b").write_bytes(b"not mounted")
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    manager.deleted_logs.purge(1 << 60)
    assert leftover.exists()
    manager.close()
    (tmp_path / "b").unlink()
    manager_of(tmp_path / "a", tmp_path / "b").deleted_logs.purge(1 << 60)
    assert not leftover.exists()


def test_stray_logs_are_kept_aside(manager_of, tmp_path):
    tp = TopicPartition("t", 0)
    manager = manager_of(tmp_path)
    append(manager.create(tp, TOPIC_ID, CONFIG))
    manager.set_stray(tp)
    manager.close()
    manager = manager_of(tmp_path)
    assert manager.logs == {}
    assert [name for name in os.listdir(tmp_path) if name.endswith("-stray")]


def test_the_metadata_log_is_not_a_data_log(manager_of, tmp_path):
    (tmp_path / "__cluster_metadata-0").mkdir()
    assert manager_of(tmp_path).logs == {}


def test_one_partition_in_two_directories_is_refused(manager_of, tmp_path):
    for name in "AB":
        (tmp_path / name / "t-0").mkdir(parents=True)
        (tmp_path / name / "t-0" / f"{0:020}.log").write_bytes(b"records")
    with pytest.raises(DuplicateLog, match="t-0"):
        manager_of(tmp_path / "A", tmp_path / "B")


@pytest.mark.parametrize("is_first_current", [True, False])
def test_of_two_logs_with_different_topic_ids_the_current_one_is_served(manager_of, tmp_path, is_first_current):
    """One directory was offline while the topic was deleted and created anew in the other one."""
    tp, ids = TopicPartition("t", 0), {"A": TOPIC_ID, "B": bytes(reversed(TOPIC_ID))}
    for name, topic_id in ids.items():
        manager = manager_of(tmp_path / "A", tmp_path / "B")
        manager.prefer(tp, str(tmp_path / name))
        append(manager.create(tp, topic_id, CONFIG), 5 if name == "A" else 3)
        manager.close()
        (tmp_path / name / "t-0").rename(tmp_path / f"kept-{name}")
    for name in ids:
        (tmp_path / f"kept-{name}").rename(tmp_path / name / "t-0")
    manager = manager_of(tmp_path / "A", tmp_path / "B")
    current, other = ("A", "B") if is_first_current else ("B", "A")
    manager.settle_rivals(lambda _, topic_id: topic_id == ids[current])
    assert manager.logs[tp].path == str(tmp_path / current / "t-0")
    assert manager.logs[tp].log_end_offset == (5 if current == "A" else 3)
    assert manager.dir_of(tp).path == str(tmp_path / current)
    assert [name for name in os.listdir(tmp_path / other) if name.endswith("-stray")]
    append(manager.logs[tp])
    manager.close()
    assert manager_of(tmp_path / "A", tmp_path / "B").logs[tp].path == str(tmp_path / current / "t-0")


def test_a_log_is_not_begun_anew_while_it_may_be_elsewhere(manager_of, tmp_path):
    tp = TopicPartition("t", 0)
    manager = manager_of(tmp_path / "A", tmp_path / "B")
    in_a = manager.dirs[0].directory_id
    manager.ensure_not_elsewhere(tp, in_a)
    manager.ensure_not_elsewhere(tp, bytes(16))
    with pytest.raises(StorageFailure, match=r"none of log\.dirs"):
        manager.ensure_not_elsewhere(tp, TOPIC_ID)
    manager.fail_dir(manager.dirs[1], StorageFailure("gone", manager.dirs[1].path))
    with pytest.raises(StorageFailure, match="offline"):
        manager.ensure_not_elsewhere(tp, in_a)


def test_identities_must_agree(manager_of, tmp_path):
    kill(manager_of(tmp_path / "A"))
    kill(manager_of(tmp_path / "B"))
    with pytest.raises(InconsistentDirs, match="belongs to cluster"):
        manager_of(tmp_path / "A", tmp_path / "B")
    (tmp_path / "C").mkdir()
    (tmp_path / "C/meta.properties").write_bytes((tmp_path / "A/meta.properties").read_bytes())
    with pytest.raises(InconsistentDirs, match=r"directory\.id"):
        manager_of(tmp_path / "A", tmp_path / "C")
    (tmp_path / "C/meta.properties").write_bytes(b"version=0\nbroker.id=7\ncluster.id=x\n")
    with pytest.raises(InconsistentDirs, match=r"node\.id 7"):
        manager_of(tmp_path / "C")


@pytest.mark.parametrize(("number", "is_refused"), [(0, True), (1, True), (2, True), (99, True), (100, False)])
def test_a_directory_with_a_reserved_id_is_refused(manager_of, tmp_path, number, is_refused):
    identity = format_uuid(number.to_bytes(16, "big"))
    (tmp_path / "meta.properties").write_text(f"version=1\ncluster.id=x\nnode.id=1\ndirectory.id={identity}\n")
    with pytest.raises(InconsistentDirs, match=r"reserved directory\.id") if is_refused else nullcontext():
        manager_of(tmp_path)


@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_a_directory_with_the_metadata_of_a_cluster_gets_no_new_identity(manager_of, tmp_path, damage):
    kill(manager_of(tmp_path))
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_bytes(b"{}")
    identity = (tmp_path / "meta.properties").read_bytes()
    (tmp_path / "meta.properties").unlink()
    if damage == "empty":
        (tmp_path / "meta.properties").touch()
    with pytest.raises(InconsistentDirs, match=r"meta\.properties is missing or empty"):
        manager_of(tmp_path)
    (tmp_path / "meta.properties").write_bytes(identity)
    assert manager_of(tmp_path).dirs[0].is_online


def test_a_file_in_place_of_a_directory_is_offline_and_the_others_serve(manager_of, tmp_path):
    (tmp_path / "F").write_bytes(b"")
    with pytest.raises(NoUsableDir):
        manager_of(tmp_path / "F")
    manager = manager_of(tmp_path / "F", tmp_path / "A")
    assert [log_dir.is_online for log_dir in manager.dirs] == [False, True]
    assert manager.create(TopicPartition("t", 0), TOPIC_ID, CONFIG).path == str(tmp_path / "A" / "t-0")


def test_new_logs_go_where_there_are_fewest(manager_of, tmp_path):
    manager = manager_of(tmp_path / "A", tmp_path / "B")
    paths = [manager.create(TopicPartition("t", n), TOPIC_ID, CONFIG).path for n in range(3)]
    assert [os.path.basename(os.path.dirname(path)) for path in paths] == ["A", "B", "A"]


def test_a_failed_directory_loses_its_logs_and_gets_no_marker(manager_of, tmp_path):
    manager = manager_of(tmp_path / "A", tmp_path / "B")
    for partition in range(2):
        append(manager.create(TopicPartition("t", partition), TOPIC_ID, CONFIG))
    failed = manager.dir_at(str(tmp_path / "A" / "t-0" / "x.log"))
    assert manager.fail_dir(failed, StorageFailure("EIO", failed.path)) == [TopicPartition("t", 0)]
    assert list(manager.logs) == [TopicPartition("t", 1)]
    manager.close()
    assert not (tmp_path / "A/.kafka_cleanshutdown").exists()
    assert (tmp_path / "B/.kafka_cleanshutdown").exists()


def test_a_checkpoint_that_cannot_be_written_names_its_directory_and_spares_the_others(manager_of, tmp_path):
    manager = manager_of(tmp_path / "A", tmp_path / "B")
    for partition in range(2):
        append(manager.create(TopicPartition("t", partition), TOPIC_ID, CONFIG))
    (tmp_path / "A" / "replication-offset-checkpoint.tmp").mkdir()
    with pytest.raises(StorageFailure) as caught:
        manager.checkpoint_high_watermarks()
    assert manager.dir_at(caught.value.path).path == str(tmp_path / "A")
    assert (tmp_path / "B/replication-offset-checkpoint").read_bytes() == b"0\n1\nt 1 1\n"
    manager.close()
    assert not (tmp_path / "A/.kafka_cleanshutdown").exists()
    assert (tmp_path / "B/.kafka_cleanshutdown").exists()


def test_a_recovery_point_above_the_end_of_a_log_is_corrected_before_anything_is_appended(manager_of, tmp_path):
    """Otherwise what is appended up to it would count as flushed after a crash."""
    tps = [TopicPartition("t", n) for n in range(2)]
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    for tp in tps:
        append(manager.create(tp, TOPIC_ID, CONFIG), 5)
    manager.close()
    files = [tmp_path / name / "recovery-point-offset-checkpoint" for name in "ab"]
    assert [file.read_bytes() for file in files] == [b"0\n1\nt 0 5\n", b"0\n1\nt 1 5\n"]
    files[0].write_bytes(b"0\n1\nt 0 9\n")
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    assert [manager.logs[tp].recovery_point for tp in tps] == [5, 5]
    assert [file.read_bytes() for file in files] == [b"0\n1\nt 0 5\n", b"0\n1\nt 1 5\n"]


def test_a_log_that_cannot_be_closed_keeps_its_directory_from_the_marker_and_no_other(manager_of, tmp_path):
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    first, second = (manager.create(TopicPartition("t", n), TOPIC_ID, CONFIG) for n in range(2))
    append(first)
    append(second)
    shutil.rmtree(first.path)
    manager.close()
    with_marker = [path.name for path in (tmp_path / "a", tmp_path / "b") if (path / ".kafka_cleanshutdown").exists()]
    assert with_marker == [os.path.basename(os.path.dirname(second.path))]


def test_the_longest_topic_is_deleted_under_a_shortened_name_and_may_come_again(manager_of, tmp_path):
    """Kafka's rule: the topic is cut so that the whole name has 255 characters."""
    tp = TopicPartition("n" * 249, 0)
    manager = manager_of(tmp_path)
    append(manager.create(tp, TOPIC_ID, CONFIG))
    manager.delete(tp, delay_ms=60_000)
    (name,) = [name for name in os.listdir(tmp_path) if name.startswith("n")]
    assert (len(name), name[: 255 - 42], name[-7:]) == (255, "n" * 213, "-delete")
    append(manager.create(tp, TOPIC_ID, CONFIG), 2)
    manager.close()
    manager = manager_of(tmp_path)
    assert manager.logs[tp].log_end_offset == 2
    manager.deleted_logs.purge(1 << 60)
    assert [name for name in os.listdir(tmp_path) if name.startswith("n")] == [f"{tp.topic}-0"]
