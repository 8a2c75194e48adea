"""A broker with two log directories, of which the second lies on a disk that may fail, and what it has promised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.harness import batches
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.mounts import Disk
from tests.harness.raw import RawClient, eventually
from tests.harness.wire import Struct

TOPIC = "t"
PARTITIONS = 4  # two a directory
KAFKA_STORAGE_ERROR = 56
NOT_LEADER_OR_FOLLOWER = 6  # of a partition that nobody leads since the start
MARKER = ".kafka_cleanshutdown"
HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
RECORD_BYTES = 60_000
NOW = 1_700_000_000_000
# What happens only when a test asks for it.
QUIET = {
    "log.flush.offset.checkpoint.interval.ms": "3600000",
    "replica.high.watermark.checkpoint.interval.ms": "3600000",
}


class Writer:
    """An idempotent producer of one partition that remembers what was acknowledged."""

    def __init__(self, client: RawClient, partition: int, topic: str = TOPIC) -> None:
        self.topic = topic
        self.partition = partition
        self.acknowledged: list[bytes] = []
        self.unanswered: bytes | None = None  # the value that was refused last, or whose answer did not come
        self._producer_id = client.producer_id()

    def send(self, client: RawClient, size: int = RECORD_BYTES) -> int:
        """Send the next record, or once more the one that was not acknowledged; return the error code."""
        sequence = len(self.acknowledged)
        if self.unanswered is None:
            self.unanswered = b"%d-%d." % (self.partition, sequence) + bytes(size)
        batch = batches.build(
            [Record(self.unanswered, key=b"%d" % sequence, timestamp=NOW)],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        result = client.produce(self.topic, batch, self.partition)
        if result.error_code == 0:
            assert result.base_offset == sequence
            self.acknowledged.append(self.unanswered)
            self.unanswered = None
        return result.error_code

    def send_many(self, client: RawClient, count: int, size: int = RECORD_BYTES) -> None:
        """Send records, each of which must be acknowledged."""
        for _ in range(count):
            assert self.send(client, size) == 0

    def send_until_refused(self, client: RawClient, size: int = RECORD_BYTES) -> int:
        """Send until a record is not acknowledged; return the error code."""
        for _ in range(10_000):
            code = self.send(client, size)
            if code:
                return code
        raise AssertionError("nothing was refused")

    def check(self, client: RawClient) -> None:
        """All that was acknowledged is there once and in order; what was not may follow it."""
        found = [record.value for record in batches.records_of(client.fetch_all(self.topic, self.partition))]
        wanted = self.acknowledged
        assert found[: len(wanted)] == wanted, f"{len(wanted)} were promised, {len(found)} are there"
        assert found[len(wanted) :] in ([], [self.unanswered]), f"{len(found) - len(wanted)} that nobody sent"

    def check_over_repetition(self, client: RawClient) -> None:
        """The same, and what was not acknowledged is there once after it was sent again."""
        self.check(client)
        assert self.send(client) == 0
        self.check(client)


class Rig:
    """The broker, its disk, its writers."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.disk = disk
        self.good = root / "good"
        self.bad = disk.path / "logs"
        self.broker = BrokerProcess(root / "broker", {"log.dirs": f"{self.good},{self.bad}", **QUIET})
        # An error in the log must mention one of these.
        self.excused = [str(disk.path), "logs of partitions are not here"]
        self.writers: dict[int, Writer] = {}
        self.client: RawClient

    def use_mount_point(self) -> None:
        """Let the directory be the root of the disk."""
        (self.disk.path / "lost+found").rmdir()
        self.bad = self.disk.path
        self.broker.properties["log.dirs"] = f"{self.good},{self.bad}"

    def start(self, properties: Mapping[str, str] = {}, **configs: str) -> None:
        """Start the broker and create the topic, with a writer for each partition."""
        self.broker.properties.update(properties)
        self.broker.start()
        self.connect()
        self.client.create_topic(TOPIC, PARTITIONS, **configs)
        self.writers = {index: Writer(self.client, index) for index in range(PARTITIONS)}
        assert len(self.on(self.bad)) == len(self.on(self.good)) == PARTITIONS // 2

    def start_filled(self, properties: Mapping[str, str] = {}, *, count: int = 5, **configs: str) -> list[Writer]:
        """Start, and let every writer send some records; return the writers of the disk."""
        self.start(properties, **configs)
        for writer in self.writers.values():
            writer.send_many(self.client, count)
        return self.on(self.bad)

    def connect(self) -> None:
        self.client = RawClient((self.broker.host, self.broker.port))

    def restart(self) -> None:
        """Start again after the disk was repaired; every partition leads, and its promises are kept."""
        self.broker.start()
        self.connect()
        for index in self.writers:
            eventually(lambda index=index: self.client.list_offset(TOPIC, -1, index).error_code == 0)
        for writer in self.writers.values():
            writer.check_over_repetition(self.client)

    def on(self, directory: Path) -> list[Writer]:
        """Give the writers of the partitions that lie in a directory."""
        return [self.writers[int(path.name.removeprefix("t-"))] for path in sorted(directory.glob("t-?"))]

    def assert_bad_is_offline(self, lost: Sequence[Writer], reason: str, refusal: int = KAFKA_STORAGE_ERROR) -> None:
        """The partitions on the disk are refused, those elsewhere serve; metadata, metrics and log say so."""
        eventually(lambda: self.metric("kafka_server_replicamanager_offlinereplicacount") == len(lost))
        assert self.metric("kafka_log_logmanager_offlinelogdirectorycount") == 1
        assert self.metric(f'kafka_log_logmanager_logdirectoryoffline{{logDirectory="{self.bad}"}}') == 1
        partitions = {writer.partition for writer in lost}
        eventually(lambda: self.leaderless() == partitions)
        assert {one.log_dir: one.error_code for one in self.described()} == {
            str(self.good): 0,
            str(self.bad): KAFKA_STORAGE_ERROR,
        }
        for index, writer in self.writers.items():
            code = self.client.list_offset(TOPIC, -1, index).error_code
            fetched = self.client.fetch(TOPIC, 0, index).error_code
            if index in partitions:
                assert (writer.send(self.client), code, fetched) == (refusal,) * 3
            else:
                writer.send_many(self.client, 3)
                writer.check(self.client)
        (line,) = [line for line in self.broker.log_text().splitlines() if "log directory offline" in line]
        assert f"dir={self.bad} " in line and reason in line

    def assert_a_write_takes_the_disk(self, lost: Sequence[Writer], reason: str) -> None:
        """A record that is sent there meets the fault, and the directory goes."""
        assert lost[0].send_until_refused(self.client) == KAFKA_STORAGE_ERROR
        self.assert_bad_is_offline(lost, reason)

    def described(self) -> list[Struct]:
        """Ask for all log directories."""
        return self.client.request("describe_log_dirs", 4, topics=None).results

    def leaderless(self) -> set[int]:
        """Return the partitions that nobody leads."""
        return {one.partition_index for one in self.client.topic(TOPIC).partitions if one.leader_id < 0}

    def metric(self, name: str) -> float:
        """Return the value of a metric, summed over its labels."""
        rows = [
            line for line in self.broker.http_get("/metrics").splitlines() if line.startswith((f"{name} ", f"{name}{{"))
        ]
        assert rows, name
        return sum(float(row.rpartition(" ")[2]) for row in rows)

    def stop(self) -> None:
        """Stop; the good directory is marked as clean, and the other is not."""
        self.client.close()
        assert self.broker.stop() == 0
        assert (self.good / MARKER).exists()
        assert not (self.bad / MARKER).exists()

    def come_back(self, mend: Callable[[], None]) -> None:
        """Stop, mend the disk, start again: every partition leads, and its promises are kept."""
        self.stop()
        mend()
        self.restart()

    def check_log(self) -> None:
        """Whatever was logged as an error is about the disk."""
        strange = [line for line in self.broker.trouble() if not any(one in line for one in self.excused)]
        assert not strange, strange

    def close(self) -> None:
        self.broker.close()
