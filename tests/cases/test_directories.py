"""Several log directories, and what becomes of partitions whose directory is away or cannot be read."""

import itertools
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.groups import find_coordinator
from tests.harness.raw import ConnectionClosed, RawClient, eventually, fetch_row, fetch_values
from tests.harness.transacting import RawProducer

pytestmark = pytest.mark.skipif(reference_wanted(), reason="looks at Odradek's own process and directories")

NOT_LEADER = 6
KAFKA_STORAGE_ERROR = 56
NOTICED_WITHIN_S = 10.0
FRESH_PARTITIONS = 4


@pytest.fixture
def two_dirs(tmp_path: Path, broker_factory: Callable[..., BrokerProcess]) -> BrokerProcess:
    """Give a broker with two directories and a topic with one record in each of its partitions, two a directory."""
    broker = broker_factory({"log.dirs": f"{tmp_path / 'first'},{tmp_path / 'second'}"})
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t", FRESH_PARTITIONS)
        for index in range(FRESH_PARTITIONS):
            client.append("t", batches.simple("v"), index)
    return broker


def ends(client: RawClient, topic: str) -> list[tuple[int, int]]:
    found = [client.list_offset(topic, -1, index) for index in range(FRESH_PARTITIONS)]
    return [(one.error_code, one.offset) for one in found]


def leaders(client: RawClient, topic: str) -> list[int]:
    return [row.leader_id for row in sorted(client.topic(topic).partitions, key=lambda row: row.partition_index)]


def logs_in(directory: Path) -> list[int]:
    return sorted(int(entry.name.removeprefix("t-")) for entry in directory.glob("t-?"))


@pytest.mark.parametrize("replacement", ["a file", "an empty directory"])
def test_records_of_a_directory_that_is_away_are_neither_hidden_nor_lost(
    tmp_path: Path, two_dirs: BrokerProcess, replacement: str
) -> None:
    second, away = tmp_path / "second", tmp_path / "away"
    there = logs_in(second)
    assert len(there) == 2
    two_dirs.stop()
    second.rename(away)
    if replacement == "a file":
        second.write_bytes(b"not mounted")
    two_dirs.start()
    with RawClient((two_dirs.host, two_dirs.port)) as client:
        expected = [(NOT_LEADER, -1) if index in there else (0, 1) for index in range(FRESH_PARTITIONS)]
        assert ends(client, "t") == expected
        assert client.produce("t", batches.simple("new"), there[0]).error_code == NOT_LEADER
        assert leaders(client, "t") == [-1 if index in there else 1 for index in range(FRESH_PARTITIONS)]
        client.create_topic("new", FRESH_PARTITIONS)
    assert two_dirs.stop() == 0
    if replacement == "a file":
        second.unlink()
        away.rename(second)
        two_dirs.start()
        with RawClient((two_dirs.host, two_dirs.port)) as client:
            assert ends(client, "t") == [(0, 1)] * FRESH_PARTITIONS
            assert ends(client, "new") == [(0, 0)] * FRESH_PARTITIONS
    two_dirs.log_path.write_text("")  # the offline directory was wanted


def test_a_directory_that_missed_a_topics_deletion_comes_back(tmp_path: Path, two_dirs: BrokerProcess) -> None:
    second, away = tmp_path / "second", tmp_path / "away"
    there = logs_in(second)
    two_dirs.stop()
    second.rename(away)
    second.write_bytes(b"not mounted")
    two_dirs.start()
    with RawClient((two_dirs.host, two_dirs.port)) as client:
        client.delete_topic("t")
        client.create_topic("t", FRESH_PARTITIONS)
    two_dirs.stop()
    second.unlink()
    away.rename(second)
    two_dirs.start()
    with RawClient((two_dirs.host, two_dirs.port)) as client:
        assert ends(client, "t") == [(0, 0)] * FRESH_PARTITIONS
    assert len(list(second.glob("t-*-stray"))) == len(there)
    two_dirs.log_path.write_text("")  # the offline directory was wanted


def test_the_start_ends_when_the_only_directory_cannot_be_loaded(broker_factory: Callable[..., BrokerProcess]) -> None:
    broker = broker_factory()
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t")
        client.append("t", batches.simple("v"))
    broker.stop()
    log = broker.data_directory / "t-0" / f"{0:020}.log"
    log.rename(log.with_suffix(".kept"))
    log.mkdir()
    broker.launch()
    assert broker.wait(timeout_s=15) == 1
    assert "no log directory is left" in broker.log_text()
    log.rmdir()
    log.with_suffix(".kept").rename(log)
    broker.log_path.write_text("")  # its errors were wanted
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        assert client.end_offset("t") == 1


def open_files_in(broker: BrokerProcess, directory: Path) -> list[str]:
    links = [path.readlink() for path in Path(f"/proc/{broker.pid}/fd").iterdir() if path.is_symlink()]
    return [str(target) for target in links if str(target).startswith(str(directory))]


def test_an_idle_directory_that_is_removed_is_noticed_and_whoever_waits_is_told(
    tmp_path: Path, two_dirs: BrokerProcess
) -> None:
    second = tmp_path / "second"
    there = logs_in(second)
    with RawClient((two_dirs.host, two_dirs.port)) as client, RawClient((two_dirs.host, two_dirs.port)) as waiting:
        rows = [{"topic": "t", "partitions": [fetch_row(there[0], 1)]}]
        waiting.send("fetch", 11, **fetch_values(rows, version=11, max_wait_ms=60_000))
        began = time.monotonic()
        shutil.rmtree(second)
        [answer] = waiting.receive("fetch", 11)[1].responses
        assert time.monotonic() - began < NOTICED_WITHIN_S
        assert answer.partitions[0].error_code == KAFKA_STORAGE_ERROR
        eventually(lambda: leaders(client, "t").count(-1) == len(there))
        assert open_files_in(two_dirs, second) == []
        client.append(
            "t", batches.simple("still"), next(index for index in range(FRESH_PARTITIONS) if index not in there)
        )
        metrics = two_dirs.http_get("/metrics")
        assert "kafka_log_logmanager_offlinelogdirectorycount 1\n" in metrics
        assert f'kafka_log_logmanager_logdirectoryoffline{{logDirectory="{second}"}} 1\n' in metrics
        assert "kafka_server_replicamanager_offlinereplicacount 2\n" in metrics
    [line] = [line for line in two_dirs.log_text().splitlines() if "log directory offline" in line]
    assert f"dir={second} partitions=2 reason=" in line
    assert two_dirs.stop() == 0
    assert not second.exists()
    two_dirs.log_path.write_text("")  # the offline directory was wanted


def _start_on(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess], gone: tuple[str, ...]
) -> tuple[dict[str, Path], BrokerProcess]:
    """Start a broker on two directories, and one for the metadata alone where that is to go; give all three paths."""
    dirs = {name: tmp_path / name for name in ("first", "second", "metadata")}
    broker = broker_factory(
        {"log.dirs": f"{dirs['first']},{dirs['second']}"}
        | ({"metadata.log.dir": str(dirs["metadata"])} if "metadata" in gone else {})
    )
    return dirs, broker


@pytest.mark.parametrize("gone", [("first",), ("first", "second"), ("metadata",)])
def test_without_its_metadata_or_any_directory_the_broker_ends(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess], gone: tuple[str, ...]
) -> None:
    dirs, broker = _start_on(tmp_path, broker_factory, gone)
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t", FRESH_PARTITIONS)
    for name in gone:
        shutil.rmtree(dirs[name])
    assert broker.wait(timeout_s=NOTICED_WITHIN_S) == 1
    text = broker.log_text()
    assert f"log directory offline dir={dirs[gone[0]]} " in text
    assert "stopping reason=the log directory of the cluster metadata failed: " in text
    assert "Traceback" not in text
    for name, path in dirs.items():
        is_served = name not in gone and path.exists()
        assert (path / ".kafka_cleanshutdown").exists() == is_served
    broker.log_path.write_text("")  # its errors were wanted


@pytest.mark.parametrize("gone", [("first",), ("first", "second"), ("metadata",)])
def test_a_stop_that_finds_a_directory_gone_says_so_and_vouches_for_nothing(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess], gone: tuple[str, ...]
) -> None:
    dirs, broker = _start_on(tmp_path, broker_factory, gone)
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t", FRESH_PARTITIONS)
        client.append("t", batches.simple("v"))
        find_coordinator(client, "g")
        RawProducer(client, "id").init()
    for name in gone:
        shutil.rmtree(dirs[name])
    assert broker.stop() == 1
    text = broker.log_text()
    for name in gone:
        assert f"log directory offline dir={dirs[name]} " in text
    assert "Traceback" not in text
    assert not any((dirs[name] / ".kafka_cleanshutdown").exists() for name in gone)
    broker.log_path.write_text("")  # its errors were wanted


def work_until_it_ends(broker: BrokerProcess) -> None:
    """Let the controller and both coordinators write, again and again, until the broker hangs up."""
    with (
        suppress(ConnectionClosed, OSError),
        RawClient((broker.host, broker.port), timeout_s=NOTICED_WITHIN_S) as client,
    ):
        for number in itertools.count():
            topic = {"name": f"new-{number}", "num_partitions": 1, "replication_factor": 1}
            client.request("create_topics", 7, topics=[topic], timeout_ms=1000)
            client.request("find_coordinator", 1, key=f"g{number}", key_type=0)
            row = {"partition_index": 0, "committed_offset": number, "committed_metadata": ""}
            client.request(
                "offset_commit",
                8,
                group_id=f"g{number}",
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": "t", "partitions": [row]}],
            )
            for transactional_id in (None, f"id-{number}"):
                client.request(
                    "init_producer_id",
                    1,
                    transactional_id=transactional_id,
                    transaction_timeout_ms=60_000,
                )


@pytest.mark.parametrize("gone", [("first",), ("first", "second"), ("metadata",)])
def test_a_lost_metadata_directory_leaves_clear_lines_whatever_goes_on(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess], gone: tuple[str, ...]
) -> None:
    dirs = {name: tmp_path / name for name in ("first", "second", "metadata")}
    broker = broker_factory(
        {
            "log.dirs": f"{dirs['first']},{dirs['second']}",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "metadata.log.max.snapshot.interval.ms": "50",
            "log.initial.task.delay.ms": "0",
            "log.retention.check.interval.ms": "100",
            "log.flush.offset.checkpoint.interval.ms": "50",
            "replica.high.watermark.checkpoint.interval.ms": "50",
            "log.cleaner.backoff.ms": "50",
        }
        | ({"metadata.log.dir": str(dirs["metadata"])} if "metadata" in gone else {})
    )
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t", FRESH_PARTITIONS)
        find_coordinator(client, "g")
        RawProducer(client, "id").init().add("t", *range(FRESH_PARTITIONS))
        worker = threading.Thread(target=work_until_it_ends, args=(broker,))
        worker.start()
        eventually(lambda: "new-20" in client.topic_names(), what="work under way")
    for name in gone:
        shutil.rmtree(dirs[name], ignore_errors=True)  # the broker goes on to write there
    assert broker.wait(timeout_s=NOTICED_WITHIN_S) == 1
    worker.join()
    text = broker.log_text()
    assert f"log directory offline dir={dirs[gone[0]]} " in text
    assert "stopping reason=the log directory of the cluster metadata failed: " in text
    assert "Traceback" not in text
    assert "never retrieved" not in text
    broker.log_path.write_text("")  # its errors were wanted


def test_a_lost_directory_under_groups_and_transactions_leaves_clear_lines_and_the_others_work(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = broker_factory(
        {
            "log.dirs": f"{first},{second}",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "log.initial.task.delay.ms": "0",
            "log.retention.check.interval.ms": "100",
            "log.flush.offset.checkpoint.interval.ms": "50",
            "replica.high.watermark.checkpoint.interval.ms": "50",
        }
    )
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic("t", FRESH_PARTITIONS)
        find_coordinator(client, "g")
        RawProducer(client, "id").init().add("t", *range(FRESH_PARTITIONS))
        worker = threading.Thread(target=work_until_it_ends, args=(broker,))
        worker.start()
        eventually(lambda: "new-20" in client.topic_names(), what="work under way")
        shutil.rmtree(second, ignore_errors=True)
        eventually(lambda: f"log directory offline dir={second} " in broker.log_text(), within_s=NOTICED_WITHIN_S)
        seen = len(client.topic_names())
        eventually(lambda: len(client.topic_names()) > seen + 20, what="work that goes on")
    assert broker.stop() == 0
    worker.join()
    text = broker.log_text()
    assert "Traceback" not in text
    assert "never retrieved" not in text
    broker.log_path.write_text("")  # its errors were wanted


def test_a_start_without_the_directory_of_the_metadata_ends_with_a_line_that_names_it(
    tmp_path: Path, two_dirs: BrokerProcess
) -> None:
    first = tmp_path / "first"
    two_dirs.stop()
    first.rename(tmp_path / "away")
    first.write_bytes(b"not mounted")
    two_dirs.launch()
    assert two_dirs.wait(timeout_s=15) == 1
    last = two_dirs.log_text().splitlines()[-1]
    assert last.startswith("odradek: ") and str(first) in last
    assert not (tmp_path / "second" / "__cluster_metadata-0").exists()
    two_dirs.log_path.write_text("")  # its errors were wanted
