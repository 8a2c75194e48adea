"""Altered configs in force without a restart and after one, at the level of the topic, the broker and all brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.metadata.controller.configs import ConfigRecord
from broker.metadata.log import ClusterLog, Voter
from config.views import LogConfig
from storage.env.clock import SeededRng, SystemClock
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition
from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.admin import BROKER, DELETE, SET, TOPIC, change_configs, described
from tests.harness.broker import BrokerProcess
from tests.harness.disk import folder
from tests.harness.raw import ConnectionClosed, RawClient, eventually

MESSAGE_TOO_LARGE = 10
CODEC_MASK, GZIP = 0x07, 1


@pytest.mark.parametrize("name", ["1", ""])
def test_a_limit_of_the_broker_holds_for_every_topic_without_its_own(broker: BrokerProcess, fresh, name: str) -> None:
    with RawClient(address(broker)) as client:
        plain, own = fresh(), fresh()
        client.create_topic(plain)
        client.create_topic(own, max_message_bytes="100000")
        batch = batches.simple("x" * 1_000)

        def code(topic: str) -> int:
            return client.produce(topic, batch).error_code

        assert (code(plain), code(own)) == (0, 0)
        assert change_configs(client, name, [("message.max.bytes", SET, "500")], kind=BROKER).error_code == 0
        eventually(lambda: code(plain) == MESSAGE_TOO_LARGE, what="the limit")
        assert code(own) == 0
        assert change_configs(client, name, [("message.max.bytes", DELETE, None)], kind=BROKER).error_code == 0
        eventually(lambda: code(plain) == 0, what="the limit to go")


def test_a_codec_of_all_brokers_applies_to_the_next_append(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)

    def stored_codec() -> int:
        offset = client.append(topic, batches.simple("x" * 300))
        stored = client.fetch_all(topic, offset=offset)
        return int.from_bytes(stored[21:23], "big") & CODEC_MASK

    assert stored_codec() == 0
    assert change_configs(client, "", [("compression.type", SET, "gzip")], kind=BROKER).error_code == 0
    eventually(lambda: stored_codec() == GZIP, what="the codec")
    assert change_configs(client, "", [("compression.type", DELETE, None)], kind=BROKER).error_code == 0
    eventually(lambda: stored_codec() == 0, what="the codec to go")


def test_a_smaller_segment_size_rolls_at_the_next_append(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic)
    for _ in range(3):
        client.append(topic, batches.simple("x" * 100))
    assert change_configs(client, topic, [("internal.segment.bytes", SET, "300")]).error_code == 0

    def has_rolled() -> bool:
        client.append(topic, batches.simple("x" * 100))
        return len(list(folder(broker, topic).glob("*.log"))) > 1

    eventually(has_rolled, what="a second segment")


def test_indexes_have_the_size_of_their_topic_after_a_restart_too(broker_factory) -> None:
    broker = broker_factory()
    with RawClient(address(broker)) as client:
        client.create_topic("small", segment_index_bytes="300")
        client.append("small", batches.simple("x"))
    directory = folder(broker, "small")

    def sizes() -> list[int]:
        return [next(directory.glob(f"*{suffix}")).stat().st_size for suffix in (".index", ".timeindex")]

    assert sizes() == [296, 300]
    broker.restart()
    assert sizes() == [296, 300]


def store(metadata_directory: Path, *records: ConfigRecord) -> None:
    """Append config records to the metadata log of a broker that is stopped, past every check."""
    fs, clock = PosixFileSystem(), SystemClock()
    tp = TopicPartition("__cluster_metadata", 0)
    log = PartitionLog.open(fs, clock, SeededRng(1), str(metadata_directory), tp, LogConfig())
    cluster_log = ClusterLog(fs, clock, log, Voter(1, bytes(16)), "any")
    cluster_log.load()
    cluster_log.append(records)
    cluster_log.close()


def test_stored_values_that_nobody_can_read_are_ignored_with_a_warning(broker_factory, is_reference: bool) -> None:
    if is_reference:
        pytest.skip("the reference's log cannot be written by this test")
    broker = broker_factory({"log.retention.hours": "3"})
    with RawClient(address(broker)) as client:
        client.create_topic("t", flush_messages="7")
    broker.stop()
    store(
        broker.data_directory / "__cluster_metadata-0",
        ConfigRecord(resource_type=TOPIC, resource_name="t", name="flush.messages", value="often"),
        ConfigRecord(resource_type=TOPIC, resource_name="t", name="once.was.a.key", value="1"),
        ConfigRecord(resource_type=BROKER, resource_name="1", name="log.retention.ms", value="soon"),
        ConfigRecord(resource_type=BROKER, resource_name="", name="log.segment.bytes", value="3"),
        ConfigRecord(resource_type=BROKER, resource_name="", name="num.partitions", value="9"),
    )
    broker.start()
    for text in ("often", "soon", "log.segment.bytes", "num.partitions"):
        assert any("WARNING" in line and text in line for line in broker.log_text().splitlines()), text
    with RawClient(address(broker)) as client:
        found = described(client, "t", "flush.messages", "retention.ms", "segment.bytes")
        assert {key: value for key, (value, _) in found.items()} == {
            "flush.messages": str(2**63 - 1),
            "retention.ms": str(3 * 3_600_000),
            "segment.bytes": "1073741824",
        }
        client.append("t", batches.simple("still served"))
        # Those of brokers are in the way of no change; those of a topic are until they are replaced.
        assert change_configs(client, "", [("log.retention.ms", SET, "9")], kind=BROKER).error_code == 0
        assert described(client, "t", "retention.ms")["retention.ms"][0] == "9"
        assert change_configs(client, "t", [("segment.ms", SET, "5")]).error_code == 40
        repaired = [("flush.messages", SET, "2"), ("once.was.a.key", DELETE, None)]
        assert change_configs(client, "t", repaired).error_code == 0
        assert described(client, "t", "flush.messages")["flush.messages"][0] == "2"


def test_a_limit_on_connections_changes_without_a_restart_and_outlives_one(broker_factory, is_reference: bool) -> None:
    if is_reference:
        pytest.skip("the reference counts connections to itself and cannot stop under this limit")
    broker = broker_factory()

    def is_served() -> bool:
        try:
            with RawClient(address(broker)) as one:
                one.versions()
        except (OSError, ConnectionClosed):
            return False
        return True

    with RawClient(address(broker)) as client:
        assert is_served()
        assert change_configs(client, "1", [("max.connections", SET, "1")], kind=BROKER).error_code == 0
        eventually(lambda: not is_served(), what="the limit")
    broker.restart()

    def lifts_the_limit() -> bool:
        """Hold the only connection; the broker may not have seen yet that the one before is closed."""
        try:
            with RawClient(address(broker)) as client:
                client.versions()
                assert not is_served()
                return change_configs(client, "1", [("max.connections", DELETE, None)], kind=BROKER).error_code == 0
        except ConnectionClosed:
            return False

    eventually(lifts_the_limit, what="the only connection")
    with RawClient(address(broker)):
        eventually(is_served, what="the limit to go")
