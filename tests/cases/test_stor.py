"""STOR-01 to STOR-05: damaged tails, indexes and snapshots are repaired at the next start."""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.disk import START, Idempotent, folder, newest, start, values
from tests.harness.offsets import commit, committed
from tests.harness.raw import RawClient

PROPERTIES = {"offsets.topic.num.partitions": "3"}


def _append_half_a_batch(log: Path, last: bytes) -> None:
    log.write_bytes(log.read_bytes() + last[: len(last) // 2])


def _flip_payload_byte(log: Path, last: bytes) -> None:
    data = bytearray(log.read_bytes())
    data[-2] ^= 0xFF
    log.write_bytes(data)


def _replace_length(length: int) -> Callable[[Path, bytes], None]:
    def damage(log: Path, last: bytes) -> None:
        data = bytearray(log.read_bytes())
        struct.pack_into(">i", data, len(data) - len(last) + 8, length)
        log.write_bytes(data)

    return damage


TORN: dict[str, tuple[Callable[[Path, bytes], None], int]] = {
    "half a batch more": (_append_half_a_batch, 100),
    "payload byte flipped": (_flip_payload_byte, 99),
    "length too large": (_replace_length(0x7FFFFFFF), 99),
    "length zero": (_replace_length(0), 99),
    "length negative": (_replace_length(-1), 99),
}


def test_stor_01_torn_batch_at_the_end(broker: BrokerProcess, fresh) -> None:
    """All variants at once, each on a topic of its own."""
    topics = {name: fresh("torn") for name in TORN}
    sizes: dict[str, int] = {}
    producers: dict[str, Idempotent] = {}
    with RawClient(address(broker)) as client:
        for topic in topics.values():
            client.create_topic(topic)
            producers[topic] = Idempotent(client, topic)
            for sequence in range(100):
                assert producers[topic].send(client, sequence) == (0, sequence)
    broker.kill()
    for name, (damage, _) in TORN.items():
        log = newest(folder(broker, topics[name]), ".log")
        data = log.read_bytes()
        sizes[name] = len(data)
        damage(log, batches.parse(data)[-1].raw)
    with start(broker, *topics.values()) as client:
        for name, (_, end) in TORN.items():
            topic = topics[name]
            assert client.end_offset(topic) == end, name
            stored = client.fetch_all(topic)
            assert [record.value for record in batches.records_of(stored)] == [b"%d" % number for number in range(end)]
            size = newest(folder(broker, topic), ".log").stat().st_size
            assert size == len(stored)
            assert size == sizes[name] if end == 100 else size < sizes[name]
            assert producers[topic].send(client, end) == (0, end), name
            assert client.list_offset(topic, START + end).offset == end


def _offsets_folders(broker: BrokerProcess) -> list[Path]:
    return sorted(broker.data_directory.glob("__consumer_offsets-*"))


@pytest.mark.parametrize("preallocate", ["false", "true"])
def test_stor_02_zero_bytes_after_the_last_batch(broker_factory, preallocate: str, fresh) -> None:
    broker: BrokerProcess = broker_factory({"log.preallocate": preallocate, "offsets.topic.num.partitions": "3"})
    topic = "zeros"
    groups = {f"group-{number}": number for number in range(6)}
    with RawClient(address(broker)) as client:
        client.create_topic(topic, segment_bytes=str(1 << 20))
        for number in range(20):
            client.append(topic, batches.simple(f"{number}"))
        for group, offset in groups.items():
            commit(client, group, topic, offset, epoch=0, metadata=group)
    broker.kill()
    if preallocate == "false":
        for directory in [folder(broker, topic), *_offsets_folders(broker)]:
            with newest(directory, ".log").open("ab") as log:
                log.write(bytes(65536))
    else:
        # The reference sets the length to segment.bytes; here only the last block is filled up, if anything is.
        size = newest(folder(broker, topic), ".log").stat().st_size
        assert size == 1 << 20 if reference_wanted() else size <= 4096
    with start(broker, topic) as client:
        assert client.end_offset(topic) == 20
        assert values(client, topic) == [b"%d" % number for number in range(20)]
        for group, offset in groups.items():
            assert committed(client, group, topic) == (offset, 0, group)
            commit(client, group, topic, offset + 1)
            assert committed(client, group, topic) == (offset + 1, -1, "")
        assert client.append(topic, batches.simple("next")) == 20


def _three_segments(client: RawClient, topic: str, per_segment: int = 60) -> int:
    """Write three segments, each with many index entries; return the log end."""
    client.create_topic(topic, segment_ms="1000000", index_interval_bytes="100", retention_ms="-1")
    number = 0
    for segment in range(3):
        for _ in range(per_segment):
            timestamp = START + segment * 2_000_000 + number
            assert client.append(topic, batches.simple(f"{number}", timestamp=timestamp)) == number
            number += 1
    return number


def _time_of(number: int, per_segment: int = 60) -> int:
    return START + number // per_segment * 2_000_000 + number


def _check_index(index: Path) -> None:
    data = index.read_bytes()
    base = int(index.stem)
    log_size = index.with_suffix(".log").stat().st_size
    assert len(data) % 8 == 0
    entries = list(struct.iter_unpack(">ii", data))
    while entries and entries[-1] == (0, 0):  # the active segment's index is preallocated
        entries.pop()
    assert entries == sorted(set(entries))
    for relative, position in entries:
        assert 0 <= position < log_size
        assert base + relative >= base


def _damage_index(kind: str, index: Path, foreign: Path) -> None:
    data = index.read_bytes()
    damaged = {
        "empty": b"",
        "5 bytes": data[:5],
        "zeros": data + bytes(4096),
        "noise": os.urandom(max(8, len(data))),
        "foreign": foreign.read_bytes(),
    }[kind]
    index.write_bytes(damaged)


@pytest.mark.parametrize("kinds", [("empty", "5 bytes", "zeros"), ("noise", "foreign", "noise")], ids=["cut", "wrong"])
def test_stor_03_damaged_offset_index(broker: BrokerProcess, fresh, kinds: tuple[str, ...]) -> None:
    topic, larger = fresh("index"), fresh("larger")
    with RawClient(address(broker)) as client:
        end = _three_segments(client, topic)
        _three_segments(client, larger, 90)
    broker.kill()
    foreign = min(folder(broker, larger).glob("*.index"))
    for kind, index in zip(kinds, sorted(folder(broker, topic).glob("*.index")), strict=True):
        _damage_index(kind, index, foreign)
    with start(broker, topic, larger) as client:
        for offset in range(end):
            result = client.fetch(topic, offset, partition_max_bytes=1)
            [batch] = batches.parse(result.records)
            assert (batch.base_offset, batch.records()[0].value) == (offset, b"%d" % offset)
        assert client.append(topic, batches.simple("next", timestamp=_time_of(end - 1) + 1)) == end
    broker.stop()
    for index in folder(broker, topic).glob("*.index"):
        _check_index(index)
    broker.start()


def test_stor_04_missing_and_orphan_indexes_and_an_empty_segment(
    broker: BrokerProcess, fresh, is_reference: bool
) -> None:
    topic = fresh("index")
    with RawClient(address(broker)) as client:
        end = _three_segments(client, topic)
    broker.stop()
    directory = folder(broker, topic)
    # An empty newest segment is a roll that was not followed by an append.
    empty = directory / f"{end:020}.log"
    empty.touch()
    logs = sorted(directory.glob("*.log"))
    for suffix in (".index", ".timeindex"):
        (directory / f"{end:020}{suffix}").unlink(missing_ok=True)
    for log in logs[:2]:
        log.with_suffix(".timeindex").unlink()
    (directory / f"{9999:020}.index").write_bytes(struct.pack(">ii", 5, 100))
    (directory / "notes.txt").write_text("keep me")
    (directory / "subfolder").mkdir()
    with start(broker, topic) as client:
        assert client.end_offset(topic) == end
        # The reference does not rebuild a lost time index and finds nothing beyond its segment.
        for number in (0, 30, 59) if is_reference else (0, 30, 59, 60, 100, end - 1):
            found = client.list_offset(topic, _time_of(number))
            assert (found.offset, found.timestamp) == (number, _time_of(number))
        assert client.list_offset(topic, _time_of(end - 1) + 1).offset == -1
        assert client.append(topic, batches.simple("next", timestamp=_time_of(end - 1) + 1)) == end
    assert (directory / "notes.txt").read_text() == "keep me"
    assert (directory / "subfolder").is_dir()
    broker.stop()
    shutil.rmtree(directory / "subfolder")
    (directory / "notes.txt").unlink()
    broker.start()


def _set_version(snapshot: Path) -> None:
    data = bytearray(snapshot.read_bytes())
    struct.pack_into(">h", data, 0, 99)
    snapshot.write_bytes(data)


def _flip_byte(snapshot: Path) -> None:
    data = bytearray(snapshot.read_bytes())
    data[-3] ^= 0xFF
    snapshot.write_bytes(data)


def _delete_all(snapshot: Path) -> None:
    for file in snapshot.parent.glob("*.snapshot"):
        file.unlink()


SNAPSHOT_DAMAGE: dict[str, Callable[[Path], None]] = {
    "empty": lambda snapshot: snapshot.write_bytes(b""),
    "byte flipped": _flip_byte,
    "version 99": _set_version,
    "deleted": _delete_all,
}


@pytest.mark.parametrize("clean", [True, False], ids=["after SIGTERM", "after SIGKILL"])
def test_stor_05_damaged_producer_snapshot(broker: BrokerProcess, fresh, clean: bool) -> None:
    damages = {name: damage for name, damage in SNAPSHOT_DAMAGE.items() if not (clean and name == "deleted")}
    producers: dict[str, Idempotent] = {}
    with RawClient(address(broker)) as client:
        for name in damages:
            topic = fresh("snapshot")
            # Without a stop only a roll writes a snapshot.
            client.create_topic(topic, segment_ms="3", retention_ms="-1")
            producers[name] = Idempotent(client, topic)
            for sequence in (0, 5, 10):
                assert producers[name].send(client, sequence, 5) == (0, sequence)
    broker.stop() if clean else broker.kill()
    for name, damage in damages.items():
        damage(newest(folder(broker, producers[name].topic), ".snapshot"))
    with start(broker, *(producer.topic for producer in producers.values())) as client:
        for name, producer in producers.items():
            assert producer.send(client, 10, 5) == (0, 10), name
            assert producer.send(client, 15, 5) == (0, 15), name
            assert producer.send(client, 30, 5)[0] == 45, name
            assert values(client, producer.topic) == [b"%d" % number for number in range(20)]
