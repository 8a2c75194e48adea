"""What becomes of the copies that a start finds: loaded with their own recovery, then kept, promoted or set aside."""

import os
import shutil

import pytest

from config.views import LogConfig
from storage.dirs.errors import DuplicateLog
from storage.dirs.manager import LogManager
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.sim.logs import append, batch, offsets_of
from tests.sim.moves import begin, catch_up, copy_all, swap

TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(reversed(TOPIC_ID))
CONFIG = LogConfig(segment_bytes=3 * len(batch()))
CHECKPOINTS = ("recovery-point-offset", "log-start-offset", "replication-offset", "cleaner-offset")


@pytest.fixture
def start(fs, clock, rng, tmp_path):
    """Start a manager over a, b and c; every call is a start of the broker after a kill of the one before."""
    started = []

    def start(*, names: str = "abc") -> LogManager:
        for manager in started:
            manager.close(clean=False)
        manager = LogManager(fs, clock, rng, [str(tmp_path / name) for name in names])
        started.append(manager)
        manager.open_dirs(1)
        manager.load_all(lambda tp: CONFIG)
        return manager

    yield start
    for manager in started:
        manager.close(clean=False)


@pytest.fixture
def moving(start, tmp_path):
    """A log of nine batches in a, a copy of the first five in b."""
    manager = start()
    log = manager.create(TP, TOPIC_ID, CONFIG)
    for _ in range(5):
        append(log)
    catch_up(manager, begin(manager, TP, str(tmp_path / "b")))
    for _ in range(4):
        append(log)
    return manager


def settle(manager: LogManager, *, named: int | None = None, topic_id: bytes | None = TOPIC_ID) -> None:
    """Settle all logs by a metadata that names one of the directories for the partition."""
    directory_id = manager.dirs[named].directory_id if named is not None else bytes(16)

    def is_current(tp: TopicPartition, found: bytes | None) -> bool:
        return found == topic_id

    manager.settle_rivals(is_current)
    for tp, log in list(manager.logs.items()):
        if not is_current(tp, log.topic_id):
            manager.set_stray(tp)
    manager.settle_futures(is_current, lambda tp: directory_id)
    for log in manager.logs.values():
        log.advance_high_watermark(log.log_end_offset)  # as a leader does that is alone


def folders(path) -> list[str]:
    """Return what each folder of a directory is: the name of a current log, or the suffix of another."""
    found = [name for name in os.listdir(path) if os.path.isdir(path / name)]
    return sorted(name[name.index("-", 4) :] if "." in name else name for name in found)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_copy_is_found_again_and_the_move_can_go_on(moving, start, tmp_path, is_clean):
    if is_clean:
        moving.close()
    manager = start()
    settle(manager, named=0)
    future = manager.futures[TP]
    assert (future.log.log_end_offset, future.log.topic_id, future.log_dir.path) == (5, TOPIC_ID, str(tmp_path / "b"))
    assert manager.dir_of(TP).path == str(tmp_path / "a")
    catch_up(manager, future)
    swap(manager, TP)
    assert offsets_of(manager.logs[TP]) == list(range(9))
    assert (folders(tmp_path / "a"), folders(tmp_path / "b")) == (["-delete"], ["t-0"])
    manager = start()
    settle(manager, named=1)
    assert offsets_of(manager.logs[TP]) == list(range(9))
    assert manager.futures == {}


def test_a_torn_copy_is_recovered_and_what_was_flushed_is_not_read_again(moving, start, tmp_path):
    moving.checkpoint_recovery_points()
    (name,) = [one for one in os.listdir(tmp_path / "b") if one.endswith("-future")]
    segment = sorted(one for one in os.listdir(tmp_path / "b" / name) if one.endswith(".log"))[-1]
    with open(tmp_path / "b" / name / segment, "ab") as file:
        file.write(b"torn")
    manager = start()
    assert manager.futures[TP].log.log_end_offset == 5
    loading = next(one for one in manager.loading if one.log_dir.path == str(tmp_path / "b"))
    assert (loading.log_count, loading.is_clean, loading.cut_bytes) == (1, False, len(b"torn"))
    assert loading.scanned_bytes < 5 * len(batch())


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_copy_alone_where_the_metadata_wants_the_log_is_the_log(moving, start, tmp_path, is_clean):
    """So it lies after a crash between the two renames of a swap."""
    catch_up(moving, moving.futures[TP])
    moving.retire(TP)
    if is_clean:
        moving.close()
    manager = start()
    assert TP not in manager.logs
    settle(manager, named=1)
    assert manager.futures == {}
    assert (manager.dir_of(TP).path, manager.logs[TP].path) == (str(tmp_path / "b"), str(tmp_path / "b" / "t-0"))
    assert offsets_of(manager.logs[TP]) == list(range(9))
    append(manager.logs[TP])
    manager.close()
    assert start().logs[TP].log_end_offset == 10


def test_the_name_of_a_promoted_copy_is_made_durable_with_the_next_purge(moving, start, clock):
    catch_up(moving, moving.futures[TP])
    moving.retire(TP)
    manager = start()
    settle(manager, named=1)
    assert manager.deleted_logs.next_purge_ms() == 0


@pytest.mark.parametrize("named", [0, 2, None])
def test_a_copy_alone_in_another_directory_serves_nobody_and_stays(moving, start, tmp_path, caplog, named):
    shutil.rmtree(tmp_path / "a" / "t-0")
    manager = start()
    settle(manager, named=named)
    assert manager.logs == {}
    assert folders(tmp_path / "b") == ["-future"]
    assert manager.futures[TP].log.path in caplog.text
    with pytest.raises(StorageFailure, match="unfinished copy"):
        manager.ensure_not_elsewhere(TP, manager.dirs[0].directory_id)


def test_a_copy_beside_its_log_stays_wherever_the_metadata_wants_the_log(moving, start, tmp_path):
    manager = start()
    settle(manager, named=1)
    assert manager.dir_of(TP).path == str(tmp_path / "a")
    assert manager.futures[TP].log_dir.path == str(tmp_path / "b")


def test_a_copy_whose_id_did_not_survive_gets_it_from_its_log(moving, start, tmp_path):
    (name,) = [one for one in os.listdir(tmp_path / "b") if one.endswith("-future")]
    (tmp_path / "b" / name / "partition.metadata").write_bytes(b"torn")
    manager = start()
    settle_any(manager)
    assert manager.futures[TP].log.topic_id == TOPIC_ID
    assert start().futures[TP].log.topic_id == TOPIC_ID


def settle_any(manager: LogManager) -> None:
    manager.settle_futures(lambda tp, topic_id: topic_id in (None, TOPIC_ID), lambda tp: None)


def test_what_a_promoted_copy_still_has_to_make_durable_is_known_under_its_new_name(moving, start, tmp_path):
    catch_up(moving, moving.futures[TP])
    moving.checkpoint_recovery_points()
    moving.retire(TP)
    (name,) = [one for one in os.listdir(tmp_path / "b") if one.endswith("-future")]
    (tmp_path / "b" / name / "00000000000000000000.txnindex").write_bytes(b"torn")  # rebuilt by recovery
    manager = start()
    settle(manager, named=1)
    unsynced = manager.logs[TP]._state.unsynced_files
    assert unsynced
    assert {os.path.dirname(path) for path in unsynced} == {manager.logs[TP].path}


@pytest.mark.parametrize("topic_id", [None, OTHER_ID])
def test_a_copy_of_a_topic_that_is_gone_is_set_aside(moving, start, tmp_path, topic_id):
    manager = start()
    settle(manager, named=1, topic_id=topic_id)
    assert (manager.logs, manager.futures) == ({}, {})
    assert (folders(tmp_path / "a"), folders(tmp_path / "b")) == (["-stray"], ["-stray"])
    manager.create(TP, OTHER_ID, CONFIG)
    assert start().futures == {}


def test_a_copy_in_the_directory_of_its_log_is_set_aside(moving, start, tmp_path):
    (name,) = [one for one in os.listdir(tmp_path / "b") if one.endswith("-future")]
    (tmp_path / "b" / name).rename(tmp_path / "a" / name)
    manager = start()
    manager.checkpoint_high_watermarks()
    assert (tmp_path / "a/replication-offset-checkpoint").read_bytes() == b"0\n1\nt 0 0\n"
    settle(manager, named=0)
    assert (list(manager.logs), manager.futures) == ([TP], {})
    assert folders(tmp_path / "a") == ["-stray", "t-0"]


@pytest.mark.parametrize("suffix", ["", f".{'0b' * 16}-future"])
def test_two_folders_of_one_kind_are_refused_and_both_are_named(moving, start, tmp_path, suffix):
    moving.close(clean=False)
    (future,) = [one for one in os.listdir(tmp_path / "b") if one.endswith("-future")]
    first = tmp_path / "b" / future if suffix else tmp_path / "a" / "t-0"
    second = tmp_path / "c" / f"t-0{suffix}"
    shutil.copytree(first, second)
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file() and "t-0" in str(path)}
    with pytest.raises(DuplicateLog) as caught:
        start()
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)
    after = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file() and "t-0" in str(path)}
    assert after == before
    shutil.rmtree(second)
    assert list(start().logs) == [TP]


def test_two_copies_in_one_directory_are_refused_too(moving, start, tmp_path):
    (future,) = [one for one in os.listdir(tmp_path / "b") if one.endswith("-future")]
    shutil.copytree(tmp_path / "b" / future, tmp_path / "b" / f"t-0.{'0b' * 16}-future")
    with pytest.raises(DuplicateLog):
        start()


@pytest.mark.parametrize("is_first_current", [True, False])
def test_of_two_copies_with_different_topic_ids_the_current_one_stays(moving, start, tmp_path, is_first_current):
    """A directory was away with the copy of a topic that was deleted and created anew meanwhile."""
    manager = start(names="abc")
    manager.delete(TP)
    assert manager.futures == {}
    manager.deleted_logs.purge(1 << 60)
    for place, topic_id in (("b", TOPIC_ID), ("c", OTHER_ID)):
        manager.prefer(TP, str(tmp_path / "a"))
        append(manager.create(TP, topic_id, CONFIG), 1 if place == "b" else 2)
        catch_up(manager, begin(manager, TP, str(tmp_path / place)))
        (name,) = [one for one in os.listdir(tmp_path / place) if one.endswith("-future")]
        shutil.copytree(tmp_path / place / name, tmp_path / f"kept-{place}" / name)
        if (topic_id == TOPIC_ID) is is_first_current:
            shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "kept-a" / "t-0")
        manager.delete(TP)
        manager.deleted_logs.purge(1 << 60)
    manager.close(clean=False)
    for place in "abc":
        shutil.copytree(tmp_path / f"kept-{place}", tmp_path / place, dirs_exist_ok=True)
    manager = start()
    settle(manager, named=0, topic_id=TOPIC_ID if is_first_current else OTHER_ID)
    current, other = ("b", "c") if is_first_current else ("c", "b")
    assert (folders(tmp_path / current), folders(tmp_path / other)) == (["-future"], ["-stray"])
    assert manager.futures[TP].log_dir.path == str(tmp_path / current)
    assert manager.futures[TP].log.log_end_offset == manager.logs[TP].log_end_offset


def test_all_checkpoints_of_a_directory_have_its_copies_and_nothing_that_has_left(moving, start, tmp_path):
    manager = moving
    append(manager.logs[TP], 3)
    future = manager.futures[TP]
    catch_up(manager, future)
    manager.set_cleaner_checkpoint(TP, 3)
    manager.logs[TP].increment_log_start_offset(10)
    future.log.increment_log_start_offset(10)

    def write() -> dict[str, list[bytes]]:
        manager.logs[TP].flush()
        manager.checkpoint_recovery_points()
        manager.checkpoint_log_starts()
        manager.checkpoint_high_watermarks()
        manager.checkpoint_cleaner_offsets()
        return {
            place: [(tmp_path / place / f"{name}-checkpoint").read_bytes() for name in CHECKPOINTS] for place in "ab"
        }

    in_both, clean, nothing = [b"0\n1\nt 0 12\n", b"0\n1\nt 0 10\n", b"0\n1\nt 0 12\n"], b"0\n1\nt 0 3\n", b"0\n0\n"
    assert write() == {"a": [*in_both, clean], "b": [*in_both, nothing]}
    swap(manager, TP)
    assert write() == {"a": [nothing] * 4, "b": [*in_both, clean]}
    manager.close(clean=False)
    manager = start()
    log = manager.logs[TP]
    assert (log.log_start_offset, log.high_watermark, log.recovery_point) == (10, 12, 12)
    assert manager.cleaner_checkpoint(TP) == 3


def test_a_clean_stop_flushes_copies_too(moving, start, tmp_path):
    future = moving.futures[TP]
    current = moving.logs[TP]
    copy_all(current, future)
    moving.close()
    assert (tmp_path / "b/recovery-point-offset-checkpoint").read_bytes() == b"0\n1\nt 0 9\n"
    assert (tmp_path / "b/.kafka_cleanshutdown").exists()
    manager = start()
    assert (manager.futures[TP].log.recovery_point, manager.futures[TP].log.log_end_offset) == (9, 9)


@pytest.mark.parametrize("clean_stops_later", [0, 2])
def test_what_no_flush_had_covered_of_a_copy_is_copied_anew_after_a_stop_that_was_not_clean(
    moving, start, tmp_path, clean_stops_later
):
    """A power failure may have taken batches from the middle of it, which no later stop makes good."""
    copy_all(moving.logs[TP], moving.futures[TP])
    moving.checkpoint_recovery_points()
    manager = start()
    for _ in range(clean_stops_later):
        settle(manager, named=0)
        manager.close()
        manager = start()
    settle(manager, named=0)
    future = manager.futures[TP]
    assert (future.log.log_end_offset, future.log.recovery_point_to_checkpoint) == (9, 5)
    copy = manager.logs[TP].copy_into(future.log)
    step = copy.plan(1 << 20)
    assert not step.turn()
    assert future.log.log_end_offset == 5
    copy.note(step)
    copy.close()
    catch_up(manager, future)
    assert offsets_of(future.log) == list(range(9))


def test_a_copy_that_cannot_be_closed_keeps_its_directory_from_the_marker(moving, tmp_path):
    append(moving.logs[TP])
    future = moving.futures[TP]
    current = moving.logs[TP]
    copy_all(current, future)
    shutil.rmtree(future.log.path)
    moving.close()
    assert not (tmp_path / "b/.kafka_cleanshutdown").exists()
    assert (tmp_path / "a/.kafka_cleanshutdown").exists()


def test_a_recovery_point_above_the_end_of_a_copy_is_corrected_at_once(moving, start, tmp_path):
    moving.close()
    (tmp_path / "b/recovery-point-offset-checkpoint").write_bytes(b"0\n1\nt 0 7\n")
    start()
    assert (tmp_path / "b/recovery-point-offset-checkpoint").read_bytes() == b"0\n1\nt 0 5\n"


def test_a_directory_that_is_away_takes_only_its_own_logs_with_it(moving, start, tmp_path):
    (tmp_path / "b").rename(tmp_path / "away")
    (tmp_path / "b").touch()
    manager = start()
    settle(manager, named=0)
    assert (list(manager.logs), manager.futures) == ([TP], {})
    append(manager.logs[TP])
    (tmp_path / "b").unlink()
    (tmp_path / "away").rename(tmp_path / "b")
    manager = start()
    settle(manager, named=0)
    assert manager.futures[TP].log.log_end_offset == 5
    catch_up(manager, manager.futures[TP])
    assert manager.futures[TP].log.log_end_offset == 10
