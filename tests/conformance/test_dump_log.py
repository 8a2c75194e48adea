"""Apache Kafka's DumpLogSegments reads what the broker left on disk and finds nothing to complain about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness import tool_host
from tests.harness.broker import BrokerProcess, broker_class
from tests.harness.raw import RawClient, eventually
from tests.harness.stored import CODECS

pytestmark = pytest.mark.jvm

# DumpLogSegments prints these and still exits with 0.
COMPLAINTS = re.compile(r"Mismatches in|Non-consecutive offsets|should be less than|not valid|isvalid: false|Exception")
RECORD_COUNT = 3_000
# Kafka 4 accepts no smaller segment.
SEGMENT_BYTES = 1024 * 1024


def dump(*arguments: str) -> str:
    printed = tool_host.run("kafka-dump-log", *arguments)
    assert not COMPLAINTS.search(printed), printed[-5000:]
    return printed


def files(directory: Path, suffix: str) -> str:
    """Return the files of a partition as the tool wants them; there must be some."""
    found = sorted(str(path) for path in directory.glob(f"*{suffix}"))
    assert found, f"no {suffix} file in {directory}"
    return ",".join(found)


@pytest.fixture(scope="module")
def stopped_broker(tmp_path_factory: pytest.TempPathFactory) -> BrokerProcess:
    """Give a broker that took records in every codec and a group's commits, and stopped cleanly."""
    properties = {"log.segment.bytes": str(SEGMENT_BYTES), "metadata.log.max.record.bytes.between.snapshots": "100"}
    broker = broker_class()(tmp_path_factory.mktemp("dumped"), properties)
    broker.start()
    try:
        with RawClient((broker.host, broker.port)) as client:
            client.create_topic("codecs")
            client.create_topic("gone")
            client.delete_topic("gone")
        for codec in CODECS:
            produce(broker.bootstrap, codec)
        commit(broker.bootstrap)
    finally:
        broker.close()
    return broker


def commit(bootstrap: str) -> None:
    """Join a group, so that its state is stored, and commit for it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["codecs"])
    eventually(lambda: consumer.poll(0.1), within_s=60)
    consumer.commit(offsets=[TopicPartition("codecs", 0, 1234)], asynchronous=False)
    consumer.close()


def produce(bootstrap: str, codec: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
    producer = Producer({**settings, "batch.size": 16384})
    for number in range(RECORD_COUNT):
        producer.produce("codecs", key=str(number), value=f"{codec}-{number}-".ljust(300, "v"), headers={"h": "x"})
    assert producer.flush(20) == 0


def test_segments_hold_every_record_in_valid_batches(stopped_broker: BrokerProcess) -> None:
    directory = stopped_broker.data_directory / "codecs-0"
    printed = dump("--deep-iteration", "--files", files(directory, ".log"))
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", printed, re.MULTILINE)]
    assert offsets == list(range(len(CODECS) * RECORD_COUNT))
    assert set(re.findall(r"compresscodec: (\w+)", printed)) == set(CODECS)
    assert set(re.findall(r"isvalid: (\w+)", printed)) == {"true"}
    assert len(list(directory.glob("*.log"))) > 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_pass_the_sanity_check_and_match_the_log(stopped_broker: BrokerProcess, suffix: str) -> None:
    directory = stopped_broker.data_directory / "codecs-0"
    checked = dump("--index-sanity-check", "--files", files(directory, suffix))
    assert checked.count("passed sanity check") == len(list(directory.glob(f"*{suffix}")))
    dump("--verify-index-only", "--files", files(directory, suffix))
    listed = dump("--files", files(directory, suffix))
    assert len(re.findall(r"\boffset: \d+\b", listed)) > 10


def test_producer_snapshots_name_each_producer(stopped_broker: BrokerProcess) -> None:
    newest = max((stopped_broker.data_directory / "codecs-0").glob("*.snapshot"))
    printed = dump("--files", str(newest))
    assert len(set(re.findall(r"producerId: (\d+)", printed))) == len(CODECS)


def test_committed_offsets_are_decoded(stopped_broker: BrokerProcess) -> None:
    segments = [
        str(path)
        for directory in stopped_broker.data_directory.glob("__consumer_offsets-*")
        for path in directory.glob("*.log")
        if path.stat().st_size
    ]
    printed = dump("--offsets-decoder", "--files", ",".join(segments))
    assert re.search(r'"group":"readers","topic":"codecs","partition":0\b', printed), printed
    assert re.search(r'"offset":1234,', printed), printed


def test_the_metadata_log_is_decoded(stopped_broker: BrokerProcess) -> None:
    directory = stopped_broker.data_directory / "__cluster_metadata-0"
    printed = dump("--cluster-metadata-decoder", "--files", files(directory, ".log"))
    assert re.search(r'"type":"TOPIC_RECORD","version":0,"data":\{"name":"codecs"', printed), printed
    for record_type in ("REGISTER_BROKER_RECORD", "PARTITION_RECORD", "FEATURE_LEVEL_RECORD", "REMOVE_TOPIC_RECORD"):
        assert f'"type":"{record_type}"' in printed


def test_metadata_snapshots_are_decoded(stopped_broker: BrokerProcess) -> None:
    directory = stopped_broker.data_directory / "__cluster_metadata-0"
    printed = dump("--cluster-metadata-decoder", "--files", files(directory, ".checkpoint"))
    assert "FEATURE_LEVEL_RECORD" in printed
