"""STOR-06 to STOR-10: damaged checkpoints, foreign entries, left-overs, the lock, SIGKILL under a producer."""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cases.conftest import address, check_health
from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.disk import START, folder, newest, start, values
from tests.harness.raw import RawClient, eventually

ROOT_CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
]
DAMAGE = {
    "empty": "",
    "garbage": "garbage",
    "version 9": "9\n0\n",
    "count too large": "0\n5\n{topic} 0 0\n",
    "vanished topic": "0\n1\nvanished 0 3\n",
    "beyond the end": "0\n1\n{topic} 0 999999\n",
}


def _rows(path: Path) -> list[str]:
    version, count, *rows = path.read_text().splitlines()
    assert version == "0"
    assert int(count) == len(rows)
    return rows


@pytest.mark.parametrize("damage", DAMAGE)
def test_stor_06_damaged_checkpoints(broker: BrokerProcess, fresh, damage: str, is_reference: bool) -> None:
    """All files of the directory at once; each damage of its own start."""
    if is_reference and damage in ("garbage", "version 9", "count too large"):
        pytest.skip("the reference takes a directory with an unreadable checkpoint offline")
    topic = fresh("checkpoint")
    with RawClient(address(broker)) as client:
        client.create_topic(topic, segment_ms="3", retention_ms="-1")
        for number in range(10):
            client.append(topic, batches.simple(f"{number}", timestamp=START + number * 5))
    assert broker.stop() in (0, 143)
    text = DAMAGE[damage].format(topic=topic)
    for name in ROOT_CHECKPOINTS:
        if damage == "beyond the end" and name.startswith("log-start"):
            continue
        (broker.data_directory / name).write_text(text)
    epochs = folder(broker, topic) / "leader-epoch-checkpoint"
    epochs.write_text({"vanished topic": "0\n0\n", "beyond the end": "0\n1\n0 999999\n"}.get(damage, text))
    with start(broker, topic) as client:
        assert (client.start_offset(topic), client.end_offset(topic)) == (0, 10)
        assert values(client, topic) == [b"%d" % number for number in range(10)]
        assert client.append(topic, batches.simple("next", timestamp=START + 50)) == 10
    broker.stop()
    for name in ROOT_CHECKPOINTS[:3]:
        assert (
            f"{topic} 0" in {row.rpartition(" ")[0] for row in _rows(broker.data_directory / name)} or "start" in name
        )
    offsets = dict(row.rsplit(" ", 1) for row in _rows(broker.data_directory / ROOT_CHECKPOINTS[0]))
    assert offsets[f"{topic} 0"] == "11"
    assert _rows(epochs)[-1].split()[0].isdigit()
    broker.start()


def test_stor_07_plain_files_and_dangling_links_are_left_alone(broker: BrokerProcess, fresh) -> None:
    topic, doomed = fresh("foreign"), fresh("doomed")
    with RawClient(address(broker)) as client:
        for name in (topic, doomed):
            client.create_topic(name)
            client.append(name, batches.simple("kept"))
    broker.stop()
    directory = broker.data_directory
    (directory / "README").write_text("hello")
    (directory / "x.log").write_text("not a log")
    (directory / "dangling").symlink_to("/nonexistent")
    with start(broker, topic, doomed) as client:
        assert values(client, topic) == [b"kept"]
        client.delete_topic(doomed)
    broker.stop()
    assert (directory / "README").read_text() == "hello"
    assert (directory / "x.log").read_text() == "not a log"
    assert os.readlink(directory / "dangling") == "/nonexistent"
    for name in ("README", "x.log", "dangling"):
        (directory / name).unlink()
    broker.start()


@pytest.mark.parametrize("name", ["lost+found", "other", ".snapshot"])
def test_stor_07_foreign_folders_are_ignored_or_named(broker: BrokerProcess, fresh, name: str) -> None:
    topic = fresh("foreign")
    with RawClient(address(broker)) as client:
        client.create_topic(topic)
        client.append(topic, batches.simple("kept"))
    broker.stop()
    foreign = broker.data_directory / name
    foreign.mkdir(mode=0o700)
    (foreign / "inside").write_text("mine")
    broker.launch()
    try:
        broker.wait_ready()
    except Exception:
        assert broker.process is None, "it neither ran nor ended"
        assert name in broker.log_text()
    else:
        with RawClient(address(broker)) as client:
            eventually(lambda: client.list_offset(topic, -1).error_code == 0)
            assert values(client, topic) == [b"kept"]
        broker.stop()
    assert (foreign / "inside").read_text() == "mine"
    assert foreign.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(foreign)
    with start(broker, topic) as client:
        assert values(client, topic) == [b"kept"]


def _two_segments(client: RawClient, topic: str) -> None:
    client.create_topic(topic, segment_ms="1000000", retention_ms="-1")
    for number in range(20):
        shift = 2_000_000 if number >= 10 else 0
        client.append(topic, batches.simple(f"{number}", timestamp=START + shift + number))


def _segment_files(directory: Path) -> list[Path]:
    return [directory / f"{0:020}{suffix}" for suffix in (".log", ".index", ".timeindex")]


def test_stor_08_left_overs_of_cleaning_and_deletion(broker: BrokerProcess, fresh) -> None:
    cleaned, swap, swap_only = (fresh(f"my.topic-{name}") for name in ("cleaned", "swap", "swap-only"))
    topics = (cleaned, swap, swap_only)
    with RawClient(address(broker)) as client:
        for topic in topics:
            _two_segments(client, topic)
    broker.stop()
    log, index, _ = _segment_files(folder(broker, cleaned))
    Path(f"{log}.cleaned").write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    shutil.copy(index, f"{index}.cleaned")
    shutil.copy(log, f"{log}.deleted")
    for topic in (swap, swap_only):
        for file in _segment_files(folder(broker, topic)):
            shutil.copy(file, f"{file}.swap")
            if topic == swap_only:
                file.unlink()
    gone = broker.data_directory / f"my.topic-1-0.{'0123456789abcdef' * 2}-delete"
    shutil.copytree(folder(broker, cleaned), gone)
    broker.properties["log.segment.delete.delay.ms"] = "1000"
    broker.properties["file.delete.delay.ms"] = "1000"
    with start(broker, *topics) as client:
        for topic in topics:
            assert (client.start_offset(topic), client.end_offset(topic)) == (0, 20)
            assert values(client, topic) == [b"%d" % number for number in range(20)], topic
            assert client.list_offset(topic, START + 5).offset == 5
        assert not any(name == "my.topic-1" for name in client.topic_names())
        for topic in topics:
            eventually(lambda topic=topic: not _left_overs(folder(broker, topic)), what="left-overs removed")
        eventually(lambda: not gone.exists(), what="deleted folder removed")
    del broker.properties["log.segment.delete.delay.ms"], broker.properties["file.delete.delay.ms"]


def _left_overs(directory: Path) -> list[Path]:
    return [file for file in directory.iterdir() if file.suffix in (".cleaned", ".swap", ".deleted")]


def test_stor_09_second_process_is_refused_and_names_the_directory(
    broker: BrokerProcess, broker_factory, is_reference: bool
) -> None:
    second: BrokerProcess = broker_factory(start=False)
    second.data_directory = broker.data_directory
    second.properties["log.dirs"] = str(broker.data_directory)
    before = sorted((file.name, file.stat().st_size) for file in broker.data_directory.iterdir())
    started = time.monotonic()
    second.launch()
    assert second.wait(timeout_s=15) != 0
    assert time.monotonic() - started < 10
    assert str(broker.data_directory) in second.log_text()
    second.log_path.write_text("")  # its errors were wanted
    if is_reference:
        broker.kill()  # the second one's controller wrote to the shared metadata log before it met the lock
        return
    check_health(broker)
    names = {name for name, _ in before}
    assert names <= {file.name for file in broker.data_directory.iterdir()}


def test_stor_09_a_stale_lock_file_does_not_count(broker: BrokerProcess) -> None:
    broker.kill()
    assert (broker.data_directory / ".lock").exists()
    broker.start()
    eventually(lambda: check_health(broker) or True)


RECORDS = 20_000


def _restart_thrice(broker: BrokerProcess, done: list[int], *, kill: bool) -> None:
    for wave in (1, 2, 3):
        eventually(lambda wave=wave: len(done) > wave * RECORDS // 5, within_s=60, what="progress")
        broker.kill() if kill else broker.stop()
        broker.start()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kill", [True, False], ids=["SIGKILL", "SIGTERM"])
def test_stor_10_restarts_under_an_idempotent_producer(broker: BrokerProcess, fresh, kill: bool) -> None:
    topic = fresh("busy")
    with RawClient(address(broker)) as client:
        client.create_topic(topic, 3)
    fatal: list[object] = []
    config = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1, "acks": "all"}
    producer = Producer(
        config | {"batch.num.messages": 50, "error_cb": lambda e: fatal.append(e) if e.fatal() else None}
    )
    done: list[int] = []
    failed: list[object] = []

    def delivered(error, message) -> None:
        if error is None:
            done.append(int(message.value()))
        else:
            failed.append(error)

    restarter = threading.Thread(target=_restart_thrice, args=(broker, done), kwargs={"kill": kill})
    restarter.start()
    for number in range(RECORDS):
        # Never far ahead, so that every restart meets a producer that is writing.
        while len(producer) > 500:
            producer.poll(0.05)
        producer.produce(topic, b"%d" % number, partition=number % 3, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(120) == 0
    restarter.join(120)
    assert not restarter.is_alive()
    assert (failed, fatal) == ([], [])
    assert len(done) == RECORDS
    with RawClient(address(broker)) as client:
        client.wait_for_topic(topic, 3)
        for partition in range(3):
            stored = [int(record.value or b"") for record in batches.records_of(client.fetch_all(topic, partition))]
            assert stored == list(range(partition, RECORDS, 3))


def test_stor_06_clean_shutdown_marker_comes_and_goes(broker: BrokerProcess) -> None:
    marker = broker.data_directory / ".kafka_cleanshutdown"
    assert not marker.exists()
    assert broker.stop() in (0, 143)
    assert marker.exists()
    broker.start()
    assert not marker.exists()


def test_stor_08_newest_segment_keeps_its_name(broker: BrokerProcess, fresh) -> None:
    """A rolled segment is named by its first offset in twenty digits."""
    topic = fresh("named")
    with RawClient(address(broker)) as client:
        _two_segments(client, topic)
    assert newest(folder(broker, topic), ".log").name == f"{10:020}.log"
